package runtime

import (
	"time"

	"machined/hal"
	"machined/reconcile"
)

// look is what was seen of the runtime last.
type look struct {
	job        hal.Job
	found      *found
	sandboxes  []hal.Sandbox
	containers []hal.Container
	valid      bool // nothing has been done or told of since
	changes    uint64
	next       time.Duration
	failed     error
}

type found struct {
	sandboxes  []hal.Sandbox
	containers []hal.Container
}

// take takes in what was found.
func (l *look) take(now time.Duration) {
	if l.job == nil || !l.job.Done() {
		return
	}
	l.failed = l.job.Err()
	l.job = nil
	if l.failed != nil {
		l.next = now + pollSoon
		return
	}
	l.sandboxes, l.containers = l.found.sandboxes, l.found.containers
	l.found = nil
}

// observe has the runtime looked at when something may have changed. What was
// seen before is not acted on then.
func (p *Pods) observe(r *reconcile.Run) {
	l := &p.look
	if changes := p.CRI.Changes(); changes != l.changes {
		l.changes, l.valid = changes, false
	}
	if l.job != nil {
		return
	}
	if l.valid && r.Now < l.next || l.failed != nil && r.Now < l.next {
		r.WakeAt(l.next)
		return
	}
	// What moves after this point makes the answer void.
	f, cri := new(found), p.CRI
	l.found, l.valid, l.next = f, true, r.Now+lookEvery
	l.job = p.Jobs.Start(func() (err error) {
		f.sandboxes, f.containers, err = cri.Pods()
		return err
	})
}

// running returns the containers of a sandbox that run.
func (p *Pods) running(sandbox string) []string {
	var ids []string
	for _, c := range p.look.containers {
		if c.Sandbox == sandbox && c.State == hal.ContainerRunning {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func (l *look) has(sandbox string) bool {
	for _, s := range l.sandboxes {
		if s.ID == sandbox {
			return true
		}
	}
	return false
}

func (l *look) named(name string) bool {
	for _, s := range l.sandboxes {
		if s.Name == name {
			return true
		}
	}
	return false
}
