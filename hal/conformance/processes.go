package conformance

import (
	"slices"
	"sync"
	"testing"
	"time"

	"machined/hal"
)

// ProcessesRig is a driver and commands for it.
type ProcessesRig struct {
	Processes hal.Processes
	// Exit returns a command that ends at once with that code.
	Exit func(code int) []string
	// Sleep runs until it is signalled; Stubborn ignores TERM.
	Sleep, Stubborn []string
	// Absent is a command that does not exist.
	Absent []string
	// Advance lets time pass for processes to end.
	Advance func()
	// Settle waits until the process has set its signals up.
	Settle func()
}

// statuses collects what the exit callbacks are told.
type statuses struct {
	mu  sync.Mutex
	got []hal.ExitStatus
}

func (s *statuses) add(e hal.ExitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, e)
}

func (s *statuses) all() []hal.ExitStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// wait waits for n statuses, and then for a while for more.
func (s *statuses) wait(t *testing.T, advance func(), n int) []hal.ExitStatus {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(s.all()) < n; advance() {
		if time.Now().After(deadline) {
			t.Fatalf("%d exit statuses after 10 s; want %d", len(s.all()), n)
		}
	}
	for range 3 {
		advance()
	}
	return s.all()
}

const sigTerm, sigKill = 15, 9

// Processes checks a driver.
func Processes(t *testing.T, newRig func(t *testing.T) ProcessesRig) {
	t.Run("exit code", func(t *testing.T) { exitCodes(t, newRig(t)) })
	t.Run("signal", func(t *testing.T) { signalled(t, newRig(t)) })
	t.Run("ignored TERM", func(t *testing.T) { stubborn(t, newRig(t)) })
	t.Run("exec failure", func(t *testing.T) { execFailure(t, newRig(t)) })
	t.Run("refused groups", func(t *testing.T) {
		p := newRig(t).Processes
		for _, pid := range []int{1, 0, -1, -2} {
			expect(t, "Signal(pid 1 or less)", p.Signal(pid, sigKill), hal.ErrInvalid)
		}
	})
}

func run(argv []string) hal.ProcessSpec { return hal.ProcessSpec{Argv: argv, Stdout: -1, Stderr: -1} }

func exitCodes(t *testing.T, r ProcessesRig) {
	for _, code := range []int{0, 1, 42, 255} {
		var s statuses
		pid, err := r.Processes.Start(run(r.Exit(code)), s.add)
		must(t, "Start", err)
		got := s.wait(t, r.Advance, 1)
		if want := []hal.ExitStatus{{PID: pid, Code: code}}; !slices.Equal(got, want) {
			t.Errorf("exit %d was reported as %+v; want %+v", code, got, want)
		}
		expect(t, "Signal of a process that has ended", r.Processes.Signal(pid, sigTerm), hal.ErrNotFound)
	}
}

func signalled(t *testing.T, r ProcessesRig) {
	for _, signal := range []int{sigTerm, sigKill} {
		var s statuses
		pid, err := r.Processes.Start(run(r.Sleep), s.add)
		must(t, "Start", err)
		expect(t, "Signal", r.Processes.Signal(pid, signal), nil)
		got := s.wait(t, r.Advance, 1)
		if want := []hal.ExitStatus{{PID: pid, Signal: signal}}; !slices.Equal(got, want) {
			t.Errorf("an end by signal %d was reported as %+v; want %+v", signal, got, want)
		}
	}
}

func stubborn(t *testing.T, r ProcessesRig) {
	var s statuses
	pid, err := r.Processes.Start(run(r.Stubborn), s.add)
	must(t, "Start", err)
	r.Settle()
	expect(t, "Signal(TERM)", r.Processes.Signal(pid, sigTerm), nil)
	for range 5 {
		r.Advance()
	}
	if got := s.all(); len(got) != 0 {
		t.Fatalf("a process that ignores TERM ended: %+v", got)
	}
	expect(t, "Signal(KILL)", r.Processes.Signal(pid, sigKill), nil)
	got := s.wait(t, r.Advance, 1)
	if want := []hal.ExitStatus{{PID: pid, Signal: sigKill}}; !slices.Equal(got, want) {
		t.Errorf("KILL was reported as %+v; want %+v", got, want)
	}
}

func execFailure(t *testing.T, r ProcessesRig) {
	for name, argv := range map[string][]string{"an absent command": r.Absent, "no command": nil} {
		var s statuses
		pid, err := r.Processes.Start(run(argv), s.add)
		if err == nil || pid != 0 {
			t.Errorf("Start of %s = %d, %v; want 0 and an error", name, pid, err)
		}
		for range 3 {
			r.Advance()
		}
		if got := s.all(); len(got) != 0 {
			t.Errorf("Start of %s failed, and still an exit was reported: %+v", name, got)
		}
	}
}
