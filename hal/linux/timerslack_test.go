package linux

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"machined/hal"
)

// TestTimerSlack sets it for all threads of this process, and for none that is
// started.
func TestTimerSlack(t *testing.T) {
	slack := func(pid string) string {
		b, err := os.ReadFile("/proc/" + pid + "/timerslack_ns")
		if err != nil {
			t.Skipf("the kernel does not tell it: %v", err)
		}
		return strings.TrimSpace(string(b))
	}
	slack("self")
	p := newProcesses(t)
	if err := p.SetTimerSlack(4_000_000); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.SetTimerSlack(usualSlack) })
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if got := slack(task.Name()); got != "4000000" {
			t.Errorf("a thread has a slack of %s ns; want 4000000", got)
		}
	}
	ended := make(chan struct{})
	pid, err := p.Start(hal.ProcessSpec{Argv: []string{"/bin/sleep", "60"}, Stdout: -1, Stderr: -1}, func(hal.ExitStatus) { close(ended) })
	if err != nil {
		t.Fatal(err)
	}
	if got := slack(fmt.Sprint(pid)); got != fmt.Sprint(usualSlack) {
		t.Errorf("the process that was started has a slack of %s ns; want %d", got, usualSlack)
	}
	if err := p.Signal(pid, 9); err != nil {
		t.Error(err)
	}
	<-ended
}
