package sequence

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestRun(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name     string
		tasks    string // a letter a task; see task
		ran      string
		reported string
		err      string
	}{
		{name: "nothing", tasks: ""},
		{name: "all well", tasks: "abc", ran: "abc"},
		{name: "optional failure", tasks: "aOc", ran: "aOc", reported: "O: broken"},
		{name: "required failure", tasks: "aRc", ran: "aR", reported: "R: broken", err: "task R: broken"},
		{name: "optional panic", tasks: "aPOc", ran: "aPOc", reported: "P: panic: boom|O: broken"},
		{name: "required panic", tasks: "aQc", ran: "aQ", reported: "Q: panic: boom", err: "task Q: panic: boom"},
		{name: "no function", tasks: "aNc", ran: "ac", reported: "N: panic: runtime error: invalid memory address or nil pointer dereference"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ran string
			var reported []string
			err := Run(tasks(c.tasks, &ran, broken), func(task string, err error) {
				reported = append(reported, fmt.Sprintf("%s: %v", task, err))
			})
			if ran != c.ran || strings.Join(reported, "|") != c.reported {
				t.Errorf("Run(%s) ran %q and reported %q; want %q, %q", c.tasks, ran, reported, c.ran, c.reported)
			}
			if got := fmt.Sprint(err); got != c.err && (err != nil || c.err != "") {
				t.Errorf("Run(%s) = %q; want %q", c.tasks, got, c.err)
			}
			if strings.HasSuffix(c.err, "broken") && !errors.Is(err, broken) {
				t.Errorf("Run(%s) = %v; want it to wrap the task's error", c.tasks, err)
			}
		})
	}
}

// tasks makes a task of each letter: O and R fail, P and Q panic, N has no
// function; O, P and N are optional.
func tasks(letters string, ran *string, broken error) []Task {
	var out []Task
	for _, l := range strings.Split(letters, "") {
		task := Task{Name: l, Optional: strings.Contains("OPN", l), Run: func() error {
			*ran += l
			switch l {
			case "O", "R":
				return broken
			case "P", "Q":
				panic("boom")
			}
			return nil
		}}
		if l == "N" {
			task.Run = nil
		}
		if l != "" {
			out = append(out, task)
		}
	}
	return out
}

// TestPanicKeepsStack checks that a crash can be traced: PID 1 has no core
// dump, so the stack is all that there will be.
func TestPanicKeepsStack(t *testing.T) {
	err := Run([]Task{{Name: "crash", Run: crashOnPurpose}}, func(string, error) {})
	var p *PanicError
	if !errors.As(err, &p) {
		t.Fatalf("Run = %v; want a PanicError", err)
	}
	if p.Value != "on purpose" || !strings.Contains(string(p.Stack), "crashOnPurpose") {
		t.Errorf("PanicError has the value %v and the stack\n%s\nwant the crashing function in it", p.Value, p.Stack)
	}
}

func crashOnPurpose() error { panic("on purpose") }

func TestLock(t *testing.T) {
	all := []Priority{Boot, Upgrade, Reset, Reboot, Shutdown}
	for _, running := range all {
		for _, wanted := range all {
			var l Lock
			if err := l.Take(running); err != nil {
				t.Fatalf("Take(%s) of a free lock = %v; want success", running, err)
			}
			err := l.Take(wanted)
			if free := wanted > running; (err == nil) != free || err != nil && !errors.Is(err, ErrLocked) {
				t.Errorf("Take(%s) while %s runs = %v; want success: %v", wanted, running, err, free)
			}
			l.Release(running)
			// What has taken over keeps the lock until it ends itself.
			if err := l.Take(Boot); (err == nil) != (wanted <= running) {
				t.Errorf("Take(boot) after %s, interrupted by %s: %v, has ended = %v", running, wanted, wanted > running, err)
			}
		}
	}
}

func TestLockMessage(t *testing.T) {
	var l Lock
	_ = l.Take(Shutdown)
	const want = "start upgrade while shutdown runs: another sequence is running"
	if err := l.Take(Upgrade); err == nil || err.Error() != want {
		t.Errorf("Take(Upgrade) = %v; want %s", err, want)
	}
}

func TestPriorityNames(t *testing.T) {
	var names []string
	for p := range Shutdown + 2 {
		names = append(names, p.String())
	}
	if want := []string{"no sequence", "boot", "upgrade", "reset", "reboot", "shutdown", "no sequence"}; !slices.Equal(names, want) {
		t.Errorf("names %q; want %q", names, want)
	}
}

// TestLockIsExclusive has many callers ask for the same sequence at once, as
// the API and the power button may.
func TestLockIsExclusive(t *testing.T) {
	var l Lock
	var all sync.WaitGroup
	won := make(chan int, 100)
	for i := range 100 {
		all.Go(func() {
			if l.Take(Reboot) == nil {
				won <- i
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Errorf("%d of 100 callers got the lock; want 1", len(won))
	}
}
