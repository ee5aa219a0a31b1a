package runtime

import (
	"time"

	"machined/hal"
	"machined/reconcile"
)

// stray is a sandbox that has to go, and no pod's.
type stray struct {
	id, name string
	job      hal.Job
	tried    bool          // and failed
	next     time.Duration // after a failure
}

// leaving is a pod that the config does not name any more.
type leaving struct {
	name  string
	grace int64
	job   hal.Job // what was under way for it
}

// leave remembers what is left to do for a pod that was in the config.
func (p *Pods) leave(s *podState) {
	if s.job != nil || s.sandbox.ID != "" || len(s.old) > 0 || len(s.former) > 0 {
		p.left = append(p.left, leaving{s.Name, s.grace(), s.job})
	}
}

// comeBack returns the job of a pod that was taken out of the config and is in it
// again: the next has to wait for it.
func (p *Pods) comeBack(name string) hal.Job {
	for i, l := range p.left {
		if l.name == name {
			p.left = append(p.left[:i], p.left[i+1:]...)
			return l.job
		}
	}
	return nil
}

// takeStrays takes in the ends of what is done for pods that are not wanted.
func (p *Pods) takeStrays(now time.Duration) {
	for i := range p.left {
		if l := &p.left[i]; l.job != nil && l.job.Done() {
			l.job, p.look.valid = nil, false // what it made has to be looked at
		}
	}
	kept := p.strays[:0]
	for _, s := range p.strays {
		if s.job != nil && s.job.Done() {
			err := s.job.Err()
			s.job, p.look.valid = nil, false
			if err == nil {
				continue
			}
			s.tried, s.next = true, now+backoffMin
		}
		kept = append(kept, s)
	}
	p.strays = kept
}

// sweep removes the sandboxes that this program made, and no config names.
func (p *Pods) sweep(r *reconcile.Run) {
	p.forget()
	going := 0
	for _, s := range p.strays {
		if s.job != nil {
			going++
		}
	}
	for _, b := range p.look.sandboxes {
		if b.Name == "" || p.find(b.Name) != nil || p.begun(b.Name) {
			continue
		}
		s := p.stray(b.ID)
		if s == nil {
			s = &stray{id: b.ID, name: b.Name}
			p.strays = append(p.strays, s)
		}
		switch {
		case s.job != nil || going >= maxActions:
		case r.Now < s.next:
			r.WakeAt(s.next)
		default:
			cri, id, running, grace := p.CRI, s.id, p.running(s.id), p.graceOf(s.name)
			s.job = p.Jobs.Start(func() error { return remove(cri, id, running, grace) })
			going++
		}
	}
}

// forget drops what is known of sandboxes that are gone.
func (p *Pods) forget() {
	strays := p.strays[:0]
	for _, s := range p.strays {
		if s.job != nil || p.look.has(s.id) {
			strays = append(strays, s)
		}
	}
	p.strays = strays
	left := p.left[:0]
	for _, l := range p.left {
		if l.job != nil || p.look.named(l.name) {
			left = append(left, l)
		}
	}
	p.left = left
}

func (p *Pods) stray(id string) *stray {
	for _, s := range p.strays {
		if s.id == id {
			return s
		}
	}
	return nil
}

// begun reports whether something is under way still for a pod that was in the
// config.
func (p *Pods) begun(name string) bool {
	for _, l := range p.left {
		if l.name == name && l.job != nil {
			return true
		}
	}
	return false
}

func (p *Pods) graceOf(name string) int64 {
	for _, l := range p.left {
		if l.name == name {
			return l.grace
		}
	}
	return defaultGrace
}

// going reports whether a sandbox of that name is being removed as a stray. With
// "" it is any, if there is hope that it will not take long: what comes may need
// the memory and the ports of what goes.
func (p *Pods) going(name string) bool {
	for _, s := range p.strays {
		if s.job != nil && (s.name == name || name == "" && !s.tried) {
			return true
		}
	}
	return false
}
