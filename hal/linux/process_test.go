package linux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
	"machined/tools/testenv"
)

// newProcesses returns a driver with a reaper for the length of the test. The
// tests of this package do not run in parallel, so that os/exec in another one
// never meets it.
func newProcesses(t *testing.T) *Processes {
	reaper := NewReaper()
	t.Cleanup(reaper.Close)
	return NewProcesses(reaper, cgroupRoot)
}

func TestProcesses(t *testing.T) {
	conformance.Processes(t, func(t *testing.T) conformance.ProcessesRig {
		shell := func(script string) []string { return []string{"/bin/sh", "-c", script} }
		ready := filepath.Join(t.TempDir(), "ready")
		return conformance.ProcessesRig{
			Processes: newProcesses(t),
			Exit:      func(code int) []string { return shell(fmt.Sprint("exit ", code)) },
			Sleep:     []string{"/bin/sleep", "1000"},
			Stubborn:  shell("trap '' TERM; touch " + ready + "; while :; do sleep 1000; done"),
			Absent:    []string{"/no/such/command"},
			Advance:   func() { time.Sleep(10 * time.Millisecond) },
			Settle:    func() { waitFor(t, "the trap to be set", func() bool { _, err := os.Stat(ready); return err == nil }) },
		}
	})
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

// output runs a shell script with spec and returns what it prints.
func output(t *testing.T, spec hal.ProcessSpec, script string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	spec.Argv = []string{"/bin/sh", "-c", script}
	spec.Stdout, spec.Stderr = int(w.Fd()), int(w.Fd())
	done := make(chan hal.ExitStatus, 1)
	if _, err := newProcesses(t).Start(spec, func(e hal.ExitStatus) { done <- e }); err != nil {
		t.Fatal(err)
	}
	w.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	return strings.TrimSpace(string(out))
}

func TestProcessSurroundings(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
		spec               hal.ProcessSpec
	}{
		{"no environment", "env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=", "", hal.ProcessSpec{}},
		{"environment", `echo "$A"`, "1 2", hal.ProcessSpec{Env: []string{"A=1 2"}}},
		{"root directory", "pwd", "/", hal.ProcessSpec{}},
		{"directory", "pwd", "/proc", hal.ProcessSpec{Dir: "/proc"}},
		// The fourth is the directory that ls reads.
		{"no descriptors of ours", "ls /proc/self/fd", "0\n1\n2\n3", hal.ProcessSpec{}},
		{"standard input is empty", "cat", "", hal.ProcessSpec{}},
		// Fields 5 and 6 of proc_pid_stat(5): process group and session.
		{"a session of its own", `read pid name state ppid group session rest </proc/$$/stat; [ $$ = $group ] && [ $$ = $session ] && echo leader`, "leader", hal.ProcessSpec{}},
		{"no signal blocked, and none ignored by us", `grep -e SigBlk -e SigIgn /proc/$$/status | tr -d '\n\t '`, "SigBlk:0000000000000000" + ignored(t), hal.ProcessSpec{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := output(t, c.spec, c.script); got != c.want {
				t.Errorf("%s printed %q; want %q", c.script, got, c.want)
			}
		})
	}
	t.Run("user", func(t *testing.T) {
		testenv.NeedRoot(t)
		if got := output(t, hal.ProcessSpec{UID: 1234, GID: 5678}, "id -u; id -g; id -G"); got != "1234\n5678\n5678" {
			t.Errorf("id of 1234:5678 printed %q; want that user, that group and no other", got)
		}
	})
}

// TestSignalReachesGroup checks that what a service has started goes with it.
func TestSignalReachesGroup(t *testing.T) {
	p := newProcesses(t)
	note := filepath.Join(t.TempDir(), "child")
	done := make(chan hal.ExitStatus, 1)
	pid, err := p.Start(hal.ProcessSpec{
		Argv: []string{"/bin/sh", "-c", "sleep 1000 & echo $! >" + note + ".new; mv " + note + ".new " + note + "; wait"}, Stdout: -1, Stderr: -1,
	}, func(e hal.ExitStatus) { done <- e })
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the child's number", func() bool { _, err := os.Stat(note); return err == nil })
	if err := p.Signal(pid, 15); err != nil {
		t.Fatal(err)
	}
	if e := <-done; e.Signal != 15 {
		t.Errorf("the leader ended as %+v; want signal 15", e)
	}
	child := readPID(t, note)
	waitFor(t, "the child to end", func() bool { return !alive(child) })
}

// TestSignalNeedsOwnChild checks that the number of somebody else's process is
// not signalled: that of a service which has ended is free to be taken.
func TestSignalNeedsOwnChild(t *testing.T) {
	stranger := exec.Command("/bin/sleep", "1000")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	if err := newProcesses(t).Signal(stranger.Process.Pid, 9); !errors.Is(err, hal.ErrNotFound) || !alive(stranger.Process.Pid) {
		t.Errorf("Signal of a stranger = %v, alive: %v; want %v, and it alive", err, alive(stranger.Process.Pid), hal.ErrNotFound)
	}
}

// TestLeftoversAreKilled tells of a service whose main process crashed and left
// its workers behind: they held its port, and each of its restarts failed. What
// has a session of its own has left the service and stays.
func TestLeftoversAreKilled(t *testing.T) {
	// The shell waits until the one has a session of its own.
	const free = "setsid sh -c 'echo $$ >free.new; mv free.new free; exec sleep 1000' & while ! [ -e free ]; do sleep 0.01; done; "
	for _, c := range []struct {
		name, script string
		want         hal.ExitStatus
	}{
		{"after an exit", "sleep 1000 & echo $! >worker; " + free + "exit 7", hal.ExitStatus{Code: 7}},
		{"after a crash", "sleep 1000 & echo $! >worker; " + free + "kill -SEGV $$", hal.ExitStatus{Signal: 11}},
		{"that ignore TERM", "(trap '' TERM; sleep 1000) & echo $! >worker; " + free + "exit 0", hal.ExitStatus{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			done := make(chan hal.ExitStatus, 1)
			pid, err := newProcesses(t).Start(hal.ProcessSpec{
				Argv: []string{"/bin/sh", "-c", c.script}, Dir: dir, Env: []string{"PATH=/bin:/usr/bin"}, Stdout: -1, Stderr: -1,
			}, func(e hal.ExitStatus) { done <- e })
			if err != nil {
				t.Fatal(err)
			}
			got := <-done
			if c.want.PID = pid; got != c.want {
				t.Errorf("the leader ended as %+v; want %+v", got, c.want)
			}
			worker, loner := readPID(t, filepath.Join(dir, "worker")), readPID(t, filepath.Join(dir, "free"))
			waitFor(t, "the worker to end", func() bool { return !alive(worker) })
			if !alive(loner) {
				t.Error("a process with a session of its own was killed; want it to stay")
			}
			_ = unix.Kill(loner, unix.SIGKILL)
		})
	}
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive reports whether the process runs. Whoever adopted it may never wait
// for it, so that a zombie counts as ended.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// TestFailedExecKeepsNothing checks that a command which cannot run leaves
// neither a zombie nor an entry that a later process of its number would find.
func TestFailedExecKeepsNothing(t *testing.T) {
	p := newProcesses(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []hal.ProcessSpec{
		{Argv: []string{script}}, {Argv: []string{t.TempDir()}}, {Argv: []string{"/bin/sh"}, Dir: "/no/such/directory"},
	} {
		spec.Stdout, spec.Stderr = -1, -1
		if pid, err := p.Start(spec, func(e hal.ExitStatus) { t.Errorf("%v: exit %+v reported", spec.Argv, e) }); err == nil {
			t.Errorf("Start(%v) = %d; want an error", spec.Argv, pid)
		}
	}
	if n := waitingFor(p.reaper); n != 0 {
		t.Errorf("%d processes are waited for after failed starts; want 0", n)
	}
	if z := zombies(t.Fatal); z != 0 {
		t.Errorf("%d zombies after failed starts; want 0", z)
	}
}

// ignored is the mask of the signals that the test itself ignores, as
// proc_pid_status(5) has it: whoever started it may have ignored some, and a
// child inherits that.
func ignored(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "SigIgn:") {
			return strings.Join(strings.Fields(line), "")
		}
	}
	t.Fatal("/proc/self/status has no SigIgn")
	return ""
}
