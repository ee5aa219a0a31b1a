package runtime

import (
	"errors"
	"slices"
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

// removalsMost bounds what is removed without a pause: what does not go shall not
// be tried all the time.
const removalsMost = 64

// Collect keeps the card from filling up with the images of past pods, and with
// what containers wrote that have ended.
type Collect struct {
	Settings func() *Settings
	CRI      hal.CRI
	Jobs     hal.Jobs
	// Pods know which containers have ended. Such a one is not removed while
	// there is space, for its end is kept by it alone beyond a start of machined.
	Pods *Pods

	job     hal.Job
	removed *bool
	count   int // of removals in a row
	next    time.Duration
}

// Spec implements reconcile.Controller.
func (c *Collect) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name: "image-collect", Inputs: []resource.Kind{resource.RuntimeStatusKind, resource.PodStatusKind},
		External: []func() uint64{c.Jobs.Ended},
	}
}

// Reconcile implements reconcile.Controller. Each job removes one thing, by what
// the config is then.
func (c *Collect) Reconcile(r *reconcile.Run) error {
	if c.job != nil {
		if !c.job.Done() {
			return nil
		}
		err := c.job.Err()
		c.job = nil
		if err != nil {
			c.count = 0
			return err
		}
		if c.count++; !*c.removed || c.count >= removalsMost {
			c.count = 0
		}
	}
	if _, ready := Ready(r.Store); !ready || c.Settings().Disabled {
		c.count = 0
		return nil
	}
	limit := uint64(collectTo)
	if c.count == 0 {
		if r.Now < c.next {
			r.WakeAt(c.next)
			return nil
		}
		limit = collectFrom
	}
	c.next = r.Now + collectEvery
	removed, cri, wanted, dead := new(bool), c.CRI, c.Settings().images(), c.Pods.dead()
	c.removed = removed
	c.job = c.Jobs.Start(func() (err error) {
		*removed, err = collect(cri, wanted, dead, limit)
		return err
	})
	return nil
}

// dead returns the containers that have ended.
func (p *Pods) dead() (ids []string) {
	for _, s := range p.pods {
		for _, c := range s.containers {
			ids = append(ids, c.stale...)
			if c.now.State == hal.ContainerExited {
				ids = append(ids, c.now.ID)
			}
		}
	}
	return ids
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

// collect removes one container that has ended, or one image that nobody uses,
// where the disk is full above limit percent.
func collect(cri hal.CRI, wanted, dead []string, limit uint64) (removed bool, err error) {
	size, free, err := cri.Usage()
	if err != nil || !above(size, free, limit) {
		return false, err
	}
	images, err := cri.Images()
	if err != nil {
		return false, err
	}
	// What is in use, after what is there: the one may become more meanwhile.
	_, containers, err := cri.Pods()
	if err != nil {
		return false, err
	}
	for _, c := range containers {
		if slices.Contains(dead, c.ID) && c.State == hal.ContainerExited {
			return true, cri.RemoveContainer(c.ID)
		}
	}
	keep := make([]string, 0, len(wanted)+len(containers))
	for _, ref := range wanted {
		// Under whatever name the runtime knows it.
		switch i, err := cri.Image(ref); {
		case err == nil:
			keep = append(keep, i.ID)
		case !errors.Is(err, hal.ErrNotFound):
			return false, err
		}
	}
	for _, c := range containers {
		keep = append(keep, c.Image)
	}
	for _, i := range images {
		if !i.Pinned && !used(i, keep) {
			return true, cri.RemoveImage(i.ID)
		}
	}
	return false, nil
}

func above(size, free uint64, percent uint64) bool {
	return size > 0 && (size-min(free, size))*100 > size*percent
}

func used(i hal.Image, keep []string) bool {
	for _, ref := range keep {
		if ref == i.ID || slices.Contains(i.Tags, ref) || slices.Contains(i.Digests, ref) {
			return true
		}
	}
	return false
}
