package linux

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/tools/testenv"
)

// TestPrivileges asks the kernel what a process may: its last lines of
// proc_pid_status(5) are masks of capabilities.
func TestPrivileges(t *testing.T) {
	testenv.NeedRoot(t)
	const bind = 1 << unix.CAP_NET_BIND_SERVICE
	// Each in a test of its own: a second reaper would take the first one's.
	status := func(t *testing.T, spec hal.ProcessSpec) map[string]string {
		fields := make(map[string]string)
		for line := range strings.Lines(output(t, spec, "cat /proc/self/status; echo Score: $(cat /proc/$$/oom_score_adj)")) {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.TrimSpace(value)
		}
		return fields
	}
	var all map[string]string
	t.Run("before", func(t *testing.T) { all = status(t, hal.ProcessSpec{}) })
	mask := func(m uint64) string { return fmt.Sprintf("%016x", m) }
	for _, c := range []struct {
		name string
		spec hal.ProcessSpec
		want map[string]string
	}{
		{"root as it is", hal.ProcessSpec{}, map[string]string{"NoNewPrivs": "0", "CapEff": all["CapBnd"], "CapBnd": all["CapBnd"], "Score": "0"}},
		{"no new privileges", hal.ProcessSpec{NoNewPrivs: true}, map[string]string{"NoNewPrivs": "1", "CapEff": all["CapBnd"]}},
		{"root with one", hal.ProcessSpec{Bounded: true, Capabilities: bind}, map[string]string{"NoNewPrivs": "0", "CapEff": mask(bind), "CapBnd": mask(bind)}},
		{"root with none", hal.ProcessSpec{Bounded: true}, map[string]string{"CapEff": mask(0), "CapBnd": mask(0)}},
		{"a user", hal.ProcessSpec{UID: 1000, GID: 1000}, map[string]string{"CapEff": mask(0), "CapBnd": all["CapBnd"]}},
		{"a user with one", hal.ProcessSpec{UID: 1000, GID: 1000, Bounded: true, Capabilities: bind, NoNewPrivs: true},
			map[string]string{"NoNewPrivs": "1", "CapEff": mask(bind), "CapBnd": mask(bind), "CapAmb": mask(bind)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := status(t, c.spec)
			for name, want := range c.want {
				if got[name] != want {
					t.Errorf("%s is %q; want %q", name, got[name], want)
				}
			}
		})
	}
	// The threads that were restricted are gone, and this program is what it was.
	var after map[string]string
	t.Run("after", func(t *testing.T) { after = status(t, hal.ProcessSpec{}) })
	if after["CapBnd"] != all["CapBnd"] || after["NoNewPrivs"] != "0" {
		t.Errorf("a process without restrictions has %s, %s afterwards; want those of before", after["CapBnd"], after["NoNewPrivs"])
	}
}

func TestOOMScore(t *testing.T) {
	// The value is written when the process is there already.
	script := `i=0; while [ $i -lt 500 ] && [ "$(cat /proc/$$/oom_score_adj)" != 300 ]; do i=$((i+1)); sleep 0.01; done; cat /proc/$$/oom_score_adj`
	if got := output(t, hal.ProcessSpec{OOMScoreAdj: 300}, script); got != "300" {
		t.Errorf("oom_score_adj is %q; want 300", got)
	}
}

// TestSlowExecHoldsUpNobody tells of a reaper that was locked while a program
// was read from a slow disk: Signal waited with it, and so did the loop.
func TestSlowExecHoldsUpNobody(t *testing.T) {
	p := newProcesses(t)
	done := make(chan hal.ExitStatus, 1)
	pid, err := p.Start(hal.ProcessSpec{Argv: []string{"/bin/sleep", "1000"}, Stdout: -1, Stderr: -1}, func(e hal.ExitStatus) { done <- e })
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	slow := make(chan struct{})
	go func() {
		defer close(slow)
		_, _ = p.reaper.start(func() (int, error) { <-release; return 0, errors.New("the disk is dead") }, nil)
	}()
	waitFor(t, "the slow start to be under way", func() bool {
		p.reaper.mu.Lock()
		defer p.reaper.mu.Unlock()
		return p.reaper.starting == 1
	})
	if err := p.Signal(pid, 9); err != nil {
		t.Error(err)
	}
	select {
	case e := <-done:
		if e.Signal != 9 {
			t.Errorf("the process ended as %+v; want signal 9", e)
		}
	case <-time.After(10 * time.Second):
		t.Error("no exit status while another start is under way")
	}
	close(release)
	<-slow
}

// TestSignalAll ends all processes of a PID namespace but its first.
func TestSignalAll(t *testing.T) {
	testenv.NeedRoot(t)
	if out, err := self("signalall", unix.CLONE_NEWPID|unix.CLONE_NEWNS).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n, err := (&Processes{}).SignalAll(9); !errors.Is(err, hal.ErrInvalid) {
		t.Errorf("SignalAll by another than PID 1 = %d, %v; want %v", n, err, hal.ErrInvalid)
	}
}

// signalAllChild is the first process of a PID namespace.
func signalAllChild() int {
	if os.Getpid() != 1 || unix.Mount("proc", "/proc", "proc", 0, "") != nil {
		fmt.Println("no PID namespace of my own")
		return 1
	}
	reaper := NewReaper()
	p := NewProcesses(reaper, "")
	for _, script := range []string{"sleep 1000", "setsid sleep 1000 & exec sleep 1000", "trap '' TERM; while :; do sleep 1; done"} {
		if _, err := p.Start(hal.ProcessSpec{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin:/usr/bin"}, Stdout: -1, Stderr: -1}, func(hal.ExitStatus) {}); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	if n, err := p.SignalAll(0); n < 3 || err != nil {
		fmt.Println("SignalAll(0) =", n, err)
		return 1
	}
	for range 1000 {
		n, err := p.SignalAll(9)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if n == 0 {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("processes are left")
	return 1
}
