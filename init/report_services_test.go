package main

import (
	"fmt"
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/fake"
	"machined/init/supervise"
	"machined/reconcile/resource"
)

// TestServicesOnConsole: a service that fails says so in one line a try, and one
// that does well again once.
func TestServicesOnConsole(t *testing.T) {
	r := newRig(t)
	mustDo(t, r.startControllers())
	var lines []string
	r.reporter = newReporter(r.store, func(component, format string, args ...any) {
		if component == "web" || component == "ui" {
			lines = append(lines, component+": "+fmt.Sprintf(format, args...))
		}
	}, func() bool { return false })
	r.supervisor.Update([]supervise.Service{
		{ID: "web", Command: []string{"/bin/web"}, Restart: supervise.Never}, {ID: "ui", Command: []string{"/bin/ui"}, DependsOn: []string{"web"}},
	})
	want := func(what string, expected ...string) {
		t.Helper()
		lines = nil
		for range 5 {
			r.pass()
		}
		if !slices.Equal(lines, expected) {
			t.Errorf("%s: the console got %q; want %q", what, lines, expected)
		}
	}
	want("a service without a program", "web: Failed: no such file or directory.", "ui: Skipped: waiting for web, which has failed for good.")
	r.processes.AddProgram("/bin/web", fake.Program{})
	r.processes.AddProgram("/bin/ui", fake.Program{})
	r.supervisor.Update([]supervise.Service{
		{ID: "web", Command: []string{"/bin/web"}, Restart: supervise.Always}, {ID: "ui", Command: []string{"/bin/ui"}, DependsOn: []string{"web"}},
	})
	want("one with a program", "web: Running.", "ui: Running.")
	for n := range 2 {
		for _, p := range r.processes.Running() {
			if p.Spec.Argv[0] == "/bin/web" {
				r.processes.Exit(p.PID, hal.ExitStatus{Code: 3})
			}
		}
		want("one that fails", fmt.Sprintf("web: Waiting: exited with code 3; starting again after %d s.", n+1))
		r.clock.Advance(3e9)
		want("one that runs again", "web: Running.")
	}
}

// TestChangingReasonsOnConsole: a service that was ill for another reason at each
// probe filled the console and the node's own log with them.
func TestChangingReasonsOnConsole(t *testing.T) {
	r := newRig(t)
	var lines []string
	reporter := newReporter(r.store, func(_, format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }, func() bool { return false })
	of := subject{resource.ServiceStatusKind, resource.Named("web")}
	for i := range 10 {
		reporter.service(of, resource.ServiceStatus{ServiceID: "web", State: "Running", Message: fmt.Sprint(supervise.NotHealthyAnyMore, ": request ", i, " failed")})
	}
	reporter.service(of, resource.ServiceStatus{ServiceID: "web", State: "Running", Healthy: true, Message: "running"})
	if want := []string{supervise.NotHealthyAnyMore + ": request 0 failed.", "Running."}; !slices.Equal(lines, want) {
		t.Errorf("the console got %q; want %q", lines, want)
	}
}

// TestPublishAllocatesNothing: what is published is what has changed.
func TestPublishAllocatesNothing(t *testing.T) {
	r := newRig(t)
	r.processes.AddProgram("/bin/web", fake.Program{})
	r.supervisor.Update([]supervise.Service{{ID: "web", Command: []string{"/bin/web"}}})
	r.supervisor.Step(0)
	r.publishServices()
	if n := testing.AllocsPerRun(100, func() { r.supervisor.Step(0); r.publishServices() }); n != 0 {
		t.Errorf("to publish nothing new allocates %v times; want 0", n)
	}
}
