package supervise

// blocker is what a service waits for. It is comparable, so that a wait that
// goes on costs nothing.
type blocker struct {
	what, name, how string
	skip            bool // it will not come by itself
}

func (b blocker) String() string { return b.what + b.name + b.how }

// blocker returns the first condition that is not met: dependencies, volumes,
// gates.
func (u *unit) blocker() blocker {
	for i, d := range u.deps {
		if d == nil || !d.met() {
			return blockedBy(u.DependsOn[i], d)
		}
	}
	conds := u.owner.Conds
	if conds == nil {
		return blocker{}
	}
	for _, v := range u.Volumes {
		if met, why := conds.Volume(v); !met {
			return blocker{what: "waiting for volume ", name: v, how: why}
		}
	}
	for _, g := range u.Gates {
		if met, why := conds.Gate(g); !met {
			return blocker{what: "waiting for the ", name: g.String(), how: why}
		}
	}
	return blocker{}
}

// blockedBy says how a dependency is in the way.
func blockedBy(id string, d *unit) blocker {
	b := blocker{what: "waiting for ", name: id}
	switch {
	case d == nil:
		b.how, b.skip = ", which this node does not run", true
	case d.goal == goDown:
		b.how = ", which was stopped by hand"
	case d.state == Skipped:
		b.how, b.skip = ", which is skipped", true
	case d.state == Failed:
		b.how, b.skip = ", which has failed for good", true
	case d.state == Running:
		b.how = ", which is not healthy"
	}
	return b
}

// tellTrouble says of a service that runs when a dependency of it does not do
// well: it is not stopped for that, but may be the worse for it.
func (u *unit) tellTrouble(now int64) {
	var trouble *unit
	for _, d := range u.deps {
		if d != nil && !d.met() {
			trouble = d
			break
		}
	}
	if trouble != u.troubled {
		u.troubled = trouble
		u.say(now, u.runningMessage())
	}
}

// NotHealthyAnyMore begins the message of a service that runs and has become
// unhealthy.
const NotHealthyAnyMore = "running, but not healthy any more"

func (u *unit) runningMessage() string {
	message := "running"
	switch {
	case u.healthy:
	case u.wasHealthy:
		message = NotHealthyAnyMore
	default:
		message = "running, but not healthy yet"
	}
	if !u.healthy && u.ill != "" {
		message += ": " + u.ill
	}
	if u.troubled != nil {
		message += "; " + u.troubled.ID + ", on which it depends, is not healthy"
	}
	return message
}
