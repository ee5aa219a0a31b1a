package runtime

import (
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

const (
	// lookEvery is how often the pods are looked at when nothing is told of
	// them. The runtime tells of what ends, but not of what others remove.
	lookEvery = 60 * time.Second
	// maxActions is how many pods are worked on at once: a board has one slow
	// card.
	maxActions = 3

	backoffMin, backoffMax = time.Second, time.Minute
	// A container that ran for stableAfter is taken for recovered.
	stableAfter = time.Minute
)

// Pods makes the pods of the config run, and removes those that it made and
// that are not wanted any more.
type Pods struct {
	Settings func() *Settings
	CRI      hal.CRI
	Jobs     hal.Jobs
	// LogDir has a directory for each pod, with the containers' LogPath.
	LogDir string
	// Prepare makes what a pod needs on the node itself, such as the directories
	// that it mounts. It runs in a job.
	Prepare func(*Pod) error
	// Check asks a probe that is not Exec; address is the pod's, "" on the
	// host's network. It runs in a job.
	Check func(p Probe, address string) error
	// Images are imported before the first pod is made.
	Images *Importer

	of     *Settings // that pods were made of
	pods   []*podState
	strays []*stray
	look   look
}

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

// stray is a sandbox that has to go, and no pod's.
type stray struct {
	id   string
	job  hal.Job
	next time.Duration // after a failure
}

// Spec implements reconcile.Controller.
func (p *Pods) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name:     "pods",
		Inputs:   []resource.Kind{resource.MachineConfigKind, resource.RuntimeStatusKind},
		External: []func() uint64{p.Jobs.Ended, p.CRI.Changes},
		Outputs:  []reconcile.Output{{Kind: resource.PodStatusKind}},
	}
}

// Reconcile implements reconcile.Controller.
func (p *Pods) Reconcile(r *reconcile.Run) error {
	settings := p.Settings()
	p.adopt(settings)
	failed := p.collect(r.Now)
	runtime, ready := Ready(r.Store)
	if settings.Disabled {
		p.pods = nil
	} else if ready {
		imported := p.Images.reconcile(r, p.CRI, p.Jobs)
		p.observe(r)
		if p.look.valid && imported {
			p.act(r, runtime.NetworkReady)
		}
	} else {
		p.look.valid = false
	}
	p.probe(r, ready)
	r.Store.Pods.Begin()
	for _, s := range p.pods {
		failed = reconcile.First(failed, r.Store.Pods.Put(r.By, s.status(ready)))
	}
	r.Store.Pods.Sweep(r.By)
	return failed
}

// adopt takes over another config. What is known of pods that are in both is
// kept; what is under way for the others is no matter, they become strays.
func (p *Pods) adopt(settings *Settings) {
	if settings == p.of {
		return
	}
	p.of = settings
	var pods []*podState
	for i := range settings.Pods {
		pod := &settings.Pods[i]
		s := p.find(pod.Name)
		if s == nil {
			s = &podState{phase: phasePending, message: "not made yet"}
		}
		s.adopt(pod)
		pods = append(pods, s)
	}
	for _, old := range p.pods {
		if old.job != nil && !listed(pods, old) {
			// What it makes has to be looked at when it has ended.
			p.strays = append(p.strays, &stray{job: old.job})
		}
	}
	p.pods, p.look.valid = pods, false
}

func listed(pods []*podState, s *podState) bool {
	for _, other := range pods {
		if other == s {
			return true
		}
	}
	return false
}

func (p *Pods) find(name string) *podState {
	for _, s := range p.pods {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// collect takes in the jobs that have ended.
func (p *Pods) collect(now time.Duration) error {
	for _, s := range p.pods {
		if s.job != nil && s.job.Done() {
			s.ended(now)
			p.look.valid = false
		}
	}
	kept := p.strays[:0]
	for _, s := range p.strays {
		if s.job != nil && s.job.Done() {
			err := s.job.Err()
			s.job, s.next = nil, now
			p.look.valid = false
			if err != nil {
				s.next = now + backoffMin
			}
			if err == nil || s.id == "" {
				continue
			}
		}
		kept = append(kept, s)
	}
	p.strays = kept
	l := &p.look
	if l.job == nil || !l.job.Done() {
		return l.failed
	}
	l.failed = l.job.Err()
	l.job = nil
	if l.failed != nil {
		l.next = now + pollSoon
		return l.failed
	}
	l.sandboxes, l.containers = l.found.sandboxes, l.found.containers
	l.found = nil
	return nil
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

// act starts what is to be done next for each pod.
func (p *Pods) act(r *reconcile.Run, network bool) {
	if p.look.job != nil || p.look.failed != nil {
		return
	}
	p.sweep(r)
	running := 0
	for _, s := range p.pods {
		if s.job != nil {
			running++
		}
	}
	for _, s := range p.pods {
		if s.job != nil {
			continue
		}
		s.observe(r.Now, &p.look)
		if running >= maxActions {
			continue
		}
		if s.begin(r, p, network); s.job != nil {
			running++
		}
	}
}

// sweep removes the sandboxes that this program made, and no config names.
func (p *Pods) sweep(r *reconcile.Run) {
	kept := p.strays[:0]
	for _, s := range p.strays {
		if s.job != nil || p.look.has(s.id) {
			kept = append(kept, s)
		}
	}
	p.strays = kept
	for _, s := range p.look.sandboxes {
		if s.Name == "" || p.find(s.Name) != nil {
			continue
		}
		known := p.stray(s.ID)
		if known == nil {
			known = &stray{id: s.ID}
			p.strays = append(p.strays, known)
		}
		if known.job != nil || r.Now < known.next {
			r.WakeAt(max(known.next, r.Now))
			continue
		}
		cri, id, running := p.CRI, s.ID, p.running(s.ID)
		known.job = p.Jobs.Start(func() error { return remove(cri, id, running, defaultGrace) })
	}
}

func (p *Pods) stray(id string) *stray {
	for _, s := range p.strays {
		if s.id == id {
			return s
		}
	}
	return nil
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
