package main

import (
	"strings"

	"machined/init/supervise"
	"machined/reconcile"
	"machined/reconcile/block"
	"machined/reconcile/network"
	"machined/reconcile/resource"
)

// reporter says on the console what a user who looks at it wants to know of the
// store: what came up, what is waited for, what fails. It belongs to the loop.
type reporter struct {
	store *reconcile.Store
	say   func(component, format string, args ...any)
	at    [resource.KindCount + 1]uint64
	said  map[subject]string // the last word on each
	// erred is the run of a controller that failed last.
	erred map[resource.Key]uint64
	// resident reports whether a successor takes over in a moment.
	resident func() bool
}

type subject struct {
	kind resource.Kind
	key  resource.Key
}

func newReporter(s *reconcile.Store, say func(component, format string, args ...any), resident func() bool) *reporter {
	return &reporter{store: s, say: say, said: make(map[subject]string), erred: make(map[resource.Key]uint64), resident: resident}
}

// look reports what has changed since the last look.
func (r *reporter) look() {
	for _, kind := range []resource.Kind{
		resource.LinkStatusKind, resource.AddressStatusKind, resource.LeaseStatusKind, resource.VolumeStatusKind,
		resource.TimeStatusKind, resource.ServiceStatusKind, resource.ControllerStatusKind,
	} {
		if r.store.Seq(kind) == r.at[kind] {
			continue
		}
		var changes []reconcile.Change
		changes, r.at[kind] = r.store.Watch(kind, r.at[kind], nil)
		if len(changes) > 0 && changes[0].Op == reconcile.Lost {
			r.missing(kind, changes)
		}
		for _, c := range changes {
			if c.Op == reconcile.Destroyed {
				r.gone(subject{kind, c.Key})
			} else if c.Resource != nil {
				r.report(subject{kind, c.Key}, c)
			}
		}
	}
}

// missing takes leave of what is in the last words and not in a list of all.
func (r *reporter) missing(kind resource.Kind, list []reconcile.Change) {
	there := make(map[resource.Key]bool, len(list))
	for _, c := range list {
		there[c.Key] = true
	}
	for of := range r.said {
		if of.kind == kind && !there[of.key] {
			r.gone(of)
		}
	}
}

func (r *reporter) gone(of subject) {
	if _, said := r.said[of]; said && of.kind == resource.LinkStatusKind {
		r.say("network", "%s is gone.", of.key.Name)
	}
	delete(r.said, of)
}

func (r *reporter) report(of subject, c reconcile.Change) {
	switch v := c.Resource.(type) {
	case resource.LinkStatus:
		switch {
		case v.Index == 0:
			r.once(of, "network", v.Name+" is not there; waiting for it")
		case !v.Wired: // tunnels and the like come and go by themselves
		case v.Up && v.Carrier:
			r.once(of, "network", v.Name+" is up")
		default:
			r.once(of, "network", v.Name+" has no carrier")
		}
	case resource.AddressStatus:
		// Links without a spec are those of containers.
		if _, _, ours := r.store.LinkSpecs.Get(resource.Named(v.Link)); ours && v.Link != network.Loopback {
			r.once(of, "network", v.Link+" has the address "+v.Address.String())
		}
	case resource.LeaseStatus:
		if v.Trouble != "" {
			r.once(of, "dhcp", v.Link+": "+v.Trouble)
		}
	case resource.VolumeStatus:
		switch {
		case v.Phase == block.Waiting && r.resident():
			return // for its successor
		case v.Phase == block.Mounting:
			return // what comes of it is said
		}
		text := v.Name + " is " + v.Phase
		if v.Message != "" {
			text += ": " + v.Message
		}
		r.once(of, "volumes", text)
	case resource.TimeStatus:
		r.time(of, v)
	case resource.ServiceStatus:
		r.service(of, v)
	case resource.ControllerStatus:
		r.controller(of, v)
	}
}

// service says when a service fails, is skipped, or stops being healthy, and when
// it does well again. One that fails over and over does so ever more slowly.
func (r *reporter) service(of subject, v resource.ServiceStatus) {
	switch {
	case v.State == supervise.Failed.String(), v.State == supervise.Skipped.String(),
		v.State == supervise.Waiting.String() && v.FailuresInRow > 0 && strings.HasPrefix(v.Message, v.LastExit):
		if r.said[of] != v.Message {
			r.said[of] = v.Message
			r.say(v.ServiceID, "%s: %s.", v.State, v.Message)
		}
	case v.State != supervise.Running.String():
	case v.Healthy && r.said[of] != "":
		delete(r.said, of)
		r.say(v.ServiceID, "Running.")
	case !v.Healthy && strings.HasPrefix(v.Message, supervise.NotHealthyAnyMore) && !strings.HasPrefix(r.said[of], supervise.NotHealthyAnyMore):
		r.once(of, v.ServiceID, v.Message) // why it is not may differ from probe to probe
	}
}

// wellAfter is how many good runs in a row make a controller's error news again:
// where a job fails over and over, the runs that start it are good ones.
const wellAfter = 10

func (r *reporter) controller(of subject, v resource.ControllerStatus) {
	switch {
	case v.LastError != "":
		r.erred[of.key] = v.Runs
		r.once(of, v.Name, v.LastError)
	case v.Runs > r.erred[of.key]+wellAfter:
		delete(r.said, of)
	}
}

// time says whether the clock is right. Why not differs from try to try, and is
// said once.
func (r *reporter) time(of subject, v resource.TimeStatus) {
	said := "unsynced"
	text := v.Message
	if v.Synced {
		said, text = v.Server, "The clock follows "+v.Server
	}
	if r.said[of] != said && text != "" {
		r.said[of] = said
		r.say("time", "%s.", text)
	}
}

// once says a thing until it changes.
func (r *reporter) once(of subject, component, text string) {
	if r.said[of] == text {
		return
	}
	r.said[of] = text
	if text != "" {
		r.say(component, "%s.", text)
	}
}
