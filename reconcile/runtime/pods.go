package runtime

import (
	"slices"
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

	of      *Settings // that pods were made of
	pods    []*podState
	left    []leaving
	strays  []*stray
	fetches []*fetch
	look    look
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
	p.collect(r.Now)
	runtime, ready := Ready(r.Store)
	if ready && !settings.Disabled {
		imported := p.Images.reconcile(r, p.CRI, p.Jobs, p.looking())
		p.observe(r)
		if p.look.valid && imported {
			p.act(r, runtime.NetworkReady)
		}
		p.get(r)
	} else {
		p.away()
	}
	p.probe(r, ready)
	failed := reconcile.First(p.look.failed, p.Images.failed)
	r.Store.Pods.Begin()
	for _, s := range p.pods {
		failed = reconcile.First(failed, r.Store.Pods.Put(r.By, s.status(p, ready)))
	}
	r.Store.Pods.Sweep(r.By)
	return failed
}

// away is how things stand while the runtime does not answer, or is not wanted. It
// may come back without anything that it had.
func (p *Pods) away() {
	p.look.valid, p.look.failed = false, nil
	p.Images.anew()
	p.anew(true)
}

// adopt takes over another config. What is known of pods that are in both is
// kept.
func (p *Pods) adopt(settings *Settings) {
	if settings == p.of {
		return
	}
	p.of = settings
	wanted := settings.Pods
	if settings.Disabled {
		wanted = nil
	}
	var pods []*podState
	for i := range wanted {
		s := p.find(wanted[i].Name)
		if s == nil {
			s = &podState{phase: phasePending, message: "not made yet"}
			if s.job = p.comeBack(wanted[i].Name); s.job != nil {
				s.doing = "ending what was begun"
			}
		}
		s.adopt(&wanted[i])
		pods = append(pods, s)
	}
	for _, old := range p.pods {
		if !slices.Contains(pods, old) {
			p.leave(old)
		}
	}
	p.pods, p.look.valid = pods, false
	p.anew(false)
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
func (p *Pods) collect(now time.Duration) {
	for _, s := range p.pods {
		if s.job != nil && s.job.Done() {
			s.ended(now)
			p.look.valid = false
		}
	}
	p.takeStrays(now)
	p.fetched(now)
	p.look.take(now)
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
		if s.job != nil || p.going(s.Name) {
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
