// Package runtime follows the container runtime and keeps the pods of the
// machine config running on it, by way of its CRI.
package runtime

import (
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// Settings are the container part of the machine config.
type Settings struct {
	Disabled   bool
	Pods       []Pod
	Registries []Registry
}

// Registry is how to log in to an image registry.
type Registry struct {
	Host string // as in image references, with its port if there is one
	Auth hal.Auth
}

// ServiceID is the name of the runtime, and of the service that it is.
const ServiceID = "containerd"

const (
	// pollEvery is how often a runtime that is ready is asked whether it still
	// is, and pollSoon one that is not.
	pollEvery = 10 * time.Second
	pollSoon  = time.Second
	// A runtime that has been ready for calmAfter is asked each pollCalm: each
	// question wakes the node, and its process, several times.
	calmAfter = 2 * time.Minute
	pollCalm  = 30 * time.Second
	// answerWithin is when a runtime that has not answered counts as stuck. With
	// pollEvery, that is told within two periods.
	answerWithin = pollEvery
	stuck        = "it does not answer"
)

// Status asks the runtime how it is, and publishes RuntimeStatus.
type Status struct {
	Settings func() *Settings
	CRI      hal.CRI
	Jobs     hal.Jobs

	job    hal.Job
	answer *hal.RuntimeState
	began  time.Duration
	next   time.Duration
	since  time.Duration // when it became ready
	runs   bool          // the service's process, when last seen
	pid    int64         // of it
	void   bool          // the present question is of an earlier process
	status resource.RuntimeStatus
}

// Spec implements reconcile.Controller.
func (s *Status) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name:     "runtime-status",
		Inputs:   []resource.Kind{resource.MachineConfigKind, resource.ServiceStatusKind},
		External: []func() uint64{s.Jobs.Ended},
		Outputs:  []reconcile.Output{{Kind: resource.RuntimeStatusKind}},
	}
}

// Reconcile implements reconcile.Controller.
func (s *Status) Reconcile(r *reconcile.Run) error {
	r.Store.Runtimes.Begin()
	defer r.Store.Runtimes.Sweep(r.By)
	if s.Settings().Disabled {
		s.status = resource.RuntimeStatus{}
		return nil
	}
	s.status.Name = ServiceID
	s.follow(r)
	s.take(r.Now)
	if s.runs {
		s.ask(r)
	}
	return r.Store.Runtimes.Put(r.By, s.status)
}

// follow looks whether the runtime's process is there. What an earlier one
// answers does not count.
func (s *Status) follow(r *reconcile.Run) {
	service, _, _ := r.Store.Services.Get(resource.Named(ServiceID))
	runs := service.State == "Running"
	switch {
	case !runs:
		s.fail(state(service))
		s.void = s.job != nil
	case !s.runs || s.pid != service.PID:
		s.next = r.Now
		s.void = s.job != nil
		s.fail("it has just been started")
	}
	s.runs, s.pid = runs, service.PID
}

// state says why the process is not there.
func state(s resource.ServiceStatus) string {
	switch {
	case s.State == "":
		return "its service is not there yet"
	case s.Message == "":
		return "its service is " + s.State
	}
	return "its service is " + s.State + ": " + s.Message
}

func (s *Status) fail(why string) {
	s.status.Ready, s.status.NetworkReady, s.status.Message = false, false, why
}

// take takes the answer, or the lack of one.
func (s *Status) take(now time.Duration) {
	if s.job == nil {
		return
	}
	if !s.job.Done() {
		if now >= s.began+answerWithin && s.runs {
			s.fail(stuck)
		}
		return
	}
	err := s.job.Err()
	s.job = nil
	if s.void {
		s.void = false
		return
	}
	if err != nil {
		if s.status.Message != stuck { // the driver's error says the same, later
			s.fail(short(err.Error()))
		}
		s.next = now + pollSoon
		return
	}
	a := s.answer
	if !s.status.Ready {
		s.since = now
	}
	s.status.Ready, s.status.NetworkReady = a.Ready, a.NetworkReady
	s.status.Version, s.status.Message = a.Version, short(a.Message)
	s.next = now + pollSoon
	switch {
	case !a.Ready || !a.NetworkReady:
	case now >= s.since+calmAfter:
		s.next = now + pollCalm
	default:
		s.next = now + pollEvery
	}
}

// ask asks when it is time to, and says when the loop has to come back.
func (s *Status) ask(r *reconcile.Run) {
	if s.job == nil && r.Now >= s.next {
		answer, cri := new(hal.RuntimeState), s.CRI
		s.answer, s.began = answer, r.Now
		s.job = s.Jobs.Start(func() (err error) {
			*answer, err = cri.Status()
			return err
		})
	}
	switch {
	case s.job == nil:
		r.WakeAt(s.next)
	case r.Now < s.began+answerWithin:
		r.WakeAt(s.began + answerWithin)
	}
}

// Ready reports whether the runtime can run containers, and why not.
func Ready(s *reconcile.Store) (status resource.RuntimeStatus, ready bool) {
	status, _, ok := s.Runtimes.Get(resource.Named(ServiceID))
	return status, ok && status.Ready
}
