package main

import (
	"machined/reconcile"
	"machined/reconcile/block"
	"machined/reconcile/resource"
)

// reporter says on the console what a user who looks at it wants to know of the
// store: what came up, what is waited for, what fails. It belongs to the loop.
type reporter struct {
	store *reconcile.Store
	say   func(component, format string, args ...any)
	at    [resource.KindCount + 1]uint64
	said  map[subject]string // the last word on each
	// resident reports whether a successor takes over in a moment.
	resident func() bool
}

type subject struct {
	kind resource.Kind
	key  resource.Key
}

func newReporter(s *reconcile.Store, say func(component, format string, args ...any), resident func() bool) *reporter {
	return &reporter{store: s, say: say, said: make(map[subject]string), resident: resident}
}

// look reports what has changed since the last look.
func (r *reporter) look() {
	for _, kind := range []resource.Kind{
		resource.LinkStatusKind, resource.AddressStatusKind, resource.LeaseStatusKind, resource.VolumeStatusKind,
		resource.TimeStatusKind, resource.ControllerStatusKind,
	} {
		if r.store.Seq(kind) == r.at[kind] {
			continue
		}
		var changes []reconcile.Change
		changes, r.at[kind] = r.store.Watch(kind, r.at[kind], nil)
		for _, c := range changes {
			if c.Op == reconcile.Destroyed {
				r.gone(subject{kind, c.Key})
			} else if c.Resource != nil {
				r.report(subject{kind, c.Key}, c)
			}
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
		if c.Op != reconcile.Updated && v.Link != "lo" {
			r.say("network", "%s has the address %s.", v.Link, v.Address)
		}
	case resource.LeaseStatus:
		if v.Trouble != "" {
			r.once(of, "dhcp", v.Link+": "+v.Trouble)
		}
	case resource.VolumeStatus:
		if v.Phase == block.Waiting && r.resident() {
			return // for its successor
		}
		text := v.Name + " is " + v.Phase
		if v.Message != "" {
			text += ": " + v.Message
		}
		r.once(of, "volumes", text)
	case resource.TimeStatus:
		r.time(of, v)
	case resource.ControllerStatus:
		r.once(of, v.Name, v.LastError)
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
