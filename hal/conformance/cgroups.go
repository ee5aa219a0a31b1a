package conformance

import (
	"testing"
	"time"

	"machined/hal"
)

// CgroupsRig is a driver, and processes that begin in its cgroups.
type CgroupsRig struct {
	Cgroups   hal.Cgroups
	Processes hal.Processes
	// Base is a cgroup that the suite has for itself, such as "/test".
	Base  string
	Sleep []string // runs until it is signalled
	// Advance lets time pass for processes to end.
	Advance func()
}

// Cgroups checks a driver.
func Cgroups(t *testing.T, newRig func(t *testing.T) CgroupsRig) {
	t.Run("life", func(t *testing.T) { cgroupLife(t, newRig(t)) })
	t.Run("begin inside", func(t *testing.T) { cgroupBegin(t, newRig(t)) })
	t.Run("absent", func(t *testing.T) { cgroupAbsent(t, newRig(t)) })
}

func cgroupLife(t *testing.T, r CgroupsRig) {
	path := r.Base + "/a/b"
	for range 2 { // one that is there is no error
		missing, err := r.Cgroups.Create(path, hal.CgroupLimits{})
		must(t, "Create", err)
		if missing != "" {
			t.Errorf("Create without limits lacks %q", missing)
		}
	}
	s, err := r.Cgroups.Status(r.Base + "/a")
	must(t, "Status of the cgroup above", err)
	if s.Populated {
		t.Error("an empty cgroup is shown as populated")
	}
	must(t, "Remove", r.Cgroups.Remove(r.Base+"/a"))
	must(t, "Remove of one that is not there", r.Cgroups.Remove(r.Base+"/a"))
	_, err = r.Cgroups.Status(path)
	expect(t, "Status of what was below", err, hal.ErrNotFound)
	for _, bad := range []string{"", "/", "a", r.Base + "/../x", r.Base + "/"} {
		_, err := r.Cgroups.Create(bad, hal.CgroupLimits{})
		expect(t, "Create of "+bad, err, hal.ErrInvalid)
	}
}

func cgroupBegin(t *testing.T, r CgroupsRig) {
	path := r.Base + "/begin"
	_, err := r.Cgroups.Create(path, hal.CgroupLimits{})
	must(t, "Create", err)
	var s statuses
	spec := run(r.Sleep)
	spec.Cgroup = path
	pid, err := r.Processes.Start(spec, s.add)
	must(t, "Start in a cgroup", err)
	if got, err := r.Cgroups.Status(path); err != nil || !got.Populated {
		t.Errorf("Status with a process = %+v, %v; want it populated", got, err)
	}
	if err := r.Cgroups.Remove(path); err == nil {
		t.Error("Remove succeeded with a process inside")
	}
	other := r.Base + "/other"
	_, err = r.Cgroups.Create(other, hal.CgroupLimits{})
	must(t, "Create", err)
	must(t, "Enter", r.Cgroups.Enter(other, pid))
	if got, _ := r.Cgroups.Status(path); got.Populated {
		t.Error("the cgroup is populated after its process has left")
	}
	must(t, "Kill", r.Cgroups.Kill(other))
	for deadline := time.Now().Add(10 * time.Second); len(s.all()) == 0; r.Advance() {
		if time.Now().After(deadline) {
			t.Fatal("no exit status 10 s after Kill")
		}
	}
	if got := s.all()[0]; got.PID != pid || got.Signal != sigKill {
		t.Errorf("after Kill the exit is %+v; want process %d by signal 9", got, pid)
	}
	must(t, "Kill of an empty one", r.Cgroups.Kill(other))
	cgroupAfterKill(t, r, other)
	must(t, "Remove", r.Cgroups.Remove(path))
	must(t, "Remove", r.Cgroups.Remove(other))
}

// cgroupAfterKill tells of Linux 6.14 and later: what was cloned into a cgroup on
// which cgroup.kill had ever been used was killed at its birth, so that a service
// which had been killed once never came up again.
func cgroupAfterKill(t *testing.T, r CgroupsRig, path string) {
	t.Helper()
	var s statuses
	spec := run(r.Sleep)
	spec.Cgroup = path
	pid, err := r.Processes.Start(spec, s.add)
	must(t, "Start after Kill", err)
	for range 3 {
		r.Advance()
	}
	if got := s.all(); len(got) != 0 {
		t.Errorf("a process that was started after Kill has ended: %+v", got)
	}
	_ = r.Processes.Signal(pid, sigKill)
	s.wait(t, r.Advance, 1)
}

func cgroupAbsent(t *testing.T, r CgroupsRig) {
	absent := r.Base + "/absent"
	_, err := r.Cgroups.Status(absent)
	expect(t, "Status", err, hal.ErrNotFound)
	expect(t, "Kill", r.Cgroups.Kill(absent), hal.ErrNotFound)
	expect(t, "Enter", r.Cgroups.Enter(absent, 0), hal.ErrNotFound)
}
