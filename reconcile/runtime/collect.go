package runtime

import (
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

const (
	collectEvery = 5 * time.Minute
	// Above collectFrom percent of the disk, images that nobody uses are removed
	// until it is at collectTo, or none is left.
	collectFrom, collectTo = 85, 75
)

// Collect keeps the images of past pods from filling the card.
type Collect struct {
	Settings func() *Settings
	CRI      hal.CRI
	Jobs     hal.Jobs

	job  hal.Job
	next time.Duration
}

// Spec implements reconcile.Controller.
func (c *Collect) Spec() reconcile.Spec {
	return reconcile.Spec{Name: "image-collect", Inputs: []resource.Kind{resource.RuntimeStatusKind, resource.PodStatusKind}}
}

// Reconcile implements reconcile.Controller.
func (c *Collect) Reconcile(r *reconcile.Run) error {
	if c.job != nil {
		if !c.job.Done() {
			r.WakeIn(pollEvery)
			return nil
		}
		err := c.job.Err()
		c.job = nil
		if err != nil {
			return err
		}
	}
	if _, ready := Ready(r.Store); !ready || c.Settings().Disabled {
		return nil
	}
	if r.Now < c.next {
		r.WakeAt(c.next)
		return nil
	}
	c.next = r.Now + collectEvery
	cri, wanted := c.CRI, c.Settings().images()
	c.job = c.Jobs.Start(func() error { return collect(cri, wanted) })
	r.WakeIn(pollEvery)
	return nil
}

// images returns the references that the config names.
func (s *Settings) images() []string {
	var refs []string
	for i := range s.Pods {
		for k := range s.Pods[i].Containers {
			refs = append(refs, s.Pods[i].Containers[k].Image)
		}
	}
	return refs
}

func collect(cri hal.CRI, wanted []string) error {
	size, free, err := cri.Usage()
	if err != nil || !above(size, free, collectFrom) {
		return err
	}
	_, containers, err := cri.Pods()
	if err != nil {
		return err
	}
	images, err := cri.Images()
	if err != nil {
		return err
	}
	keep := make([]string, 0, len(wanted)+len(containers))
	for _, ref := range wanted {
		// Under whatever name the runtime knows it.
		if i, err := cri.Image(ref); err == nil {
			keep = append(keep, i.ID)
		}
	}
	for _, c := range containers {
		keep = append(keep, c.Image)
	}
	for _, i := range images {
		if i.Pinned || used(i, keep) {
			continue
		}
		if err := cri.RemoveImage(i.ID); err != nil {
			return err
		}
		if size, free, err = cri.Usage(); err != nil || !above(size, free, collectTo) {
			return err
		}
	}
	return nil
}

func above(size, free uint64, percent uint64) bool {
	return size > 0 && (size-min(free, size))*100 > size*percent
}

func used(i hal.Image, keep []string) bool {
	for _, ref := range keep {
		if ref == i.ID || contains(i.Tags, ref) || contains(i.Digests, ref) {
			return true
		}
	}
	return false
}

func contains(list []string, s string) bool {
	for _, other := range list {
		if other == s {
			return true
		}
	}
	return false
}
