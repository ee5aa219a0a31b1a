package main

import (
	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile/assembly"
	"machined/reconcile/resource"
	"machined/reconcile/runtime"
)

// podOf finds a pod of a config.
func podOf(s *assembly.Settings, name string) *runtime.Pod {
	for i := range s.Runtime.Pods {
		if p := &s.Runtime.Pods[i]; p.Name == name && !s.Runtime.Disabled {
			return p
		}
	}
	return nil
}

// sandbox finds one by its id.
func sandbox(c *fake.CRI, id string) (hal.Sandbox, bool) {
	pods, _, _ := c.Pods()
	for _, b := range pods {
		if b.ID == id {
			return b, true
		}
	}
	return hal.Sandbox{}, false
}

// right reports whether the present config wants a sandbox as it is, and the one
// under which the job that runs was started did, too.
func (w *world) right(b hal.Sandbox) bool {
	for _, s := range []*assembly.Settings{w.node.settings, w.ledger.order.settings} {
		if p := podOf(s, b.Name); p == nil || p.Hash() != b.Hash {
			return false
		}
	}
	return true
}

func (w *world) mayRun(c *fake.CRI, s hal.SandboxSpec) {
	pods, _, _ := c.Pods()
	for _, b := range pods {
		if b.Name == s.Name {
			w.fail("one sandbox", "%s is run, and is there as %s", s.Name, b.ID)
		}
	}
}

func (w *world) mayEnd(c *fake.CRI, id string) {
	b, there := sandbox(c, id)
	switch {
	case !there:
	case b.Name == "":
		w.fail("foreign pod", "%s, which is not the node's, is ended", id)
	case b.Ready && w.right(b):
		w.fail("survival", "%s is ended, which runs as the config says", id)
	}
}

func (w *world) mayEndContainer(c *fake.CRI, id string) {
	_, all, _ := c.Pods()
	for _, k := range all {
		if k.ID != id {
			continue
		}
		if b, _ := sandbox(c, k.Sandbox); b.Name == "" {
			w.fail("foreign pod", "container %s, which is not the node's, is ended", id)
		} else if k.State == hal.ContainerRunning && b.Ready && w.right(b) && !probed(podOf(w.node.settings, b.Name), k.Name) {
			w.fail("survival", "container %s is ended, which runs as the config says", id)
		}
	}
}

func probed(p *runtime.Pod, name string) bool {
	for _, c := range p.Containers {
		if c.Name == name {
			return c.Probe != nil
		}
	}
	return false
}

func (w *world) mayRemoveImage(c *fake.CRI, id string) {
	image, err := c.Image(id)
	if err != nil {
		return
	}
	if image.Pinned {
		w.fail("image", "%s is removed, which is pinned", id)
	}
	if size, free, _ := c.Usage(); (size-min(free, size))*100 <= size*75 {
		w.fail("image", "%s is removed, and %d of %d bytes are free", id, free, size)
	}
	_, all, _ := c.Pods()
	for _, k := range all {
		if k.Image == id {
			w.fail("image", "%s is removed, which %s uses", id, k.ID)
		}
	}
	for _, ref := range image.Tags {
		if w.ledger.order.settings == w.node.settings && names(w.node.settings, ref) {
			w.fail("image", "%s is removed, which the config names", ref)
		}
	}
}

func names(s *assembly.Settings, ref string) bool {
	for _, p := range s.Runtime.Pods {
		for _, c := range p.Containers {
			if c.Image == ref {
				return true
			}
		}
	}
	return false
}

// checkPods bounds what the node leaves in the runtime.
func (w *world) checkPods() {
	c := w.inner()
	if c == nil || c.Changes() == w.window.changes {
		return
	}
	w.window.changes = c.Changes()
	pods, all, _ := c.Pods()
	if most := 3 * (len(pods) + 1); len(all) > most {
		w.fail("memory", "%d containers are in %d sandboxes; want %d at most", len(all), len(pods), most)
	}
}

// judgePods compares what runs with the config.
func (w *world) judgePods(v *verdict) {
	c, settings := w.inner(), w.node.settings
	if settings.Runtime.Disabled {
		return
	}
	if c == nil {
		if w.ephemeral() != "" {
			v.miss("the runtime does not run")
		}
		return
	}
	pods, all, _ := c.Pods()
	byName := map[string]hal.Sandbox{}
	for _, b := range pods {
		if b.Name == "" {
			continue
		}
		byName[b.Name] = b
		if podOf(settings, b.Name) == nil {
			v.miss("sandbox %s is there, and the config does not name it", b.ID)
		}
	}
	for i := range settings.Runtime.Pods {
		p := &settings.Runtime.Pods[i]
		status, _, _ := w.node.store.Pods.Get(resource.Named(p.Name))
		if w.unattainable(p) && status.Phase == "Pending" {
			continue
		}
		b := byName[p.Name]
		if b.ID == "" || !b.Ready || b.Hash != p.Hash() {
			v.miss("pod %s is %+v, its status %s, %q", p.Name, b, status.Phase, status.Message)
			continue
		}
		w.judgePod(v, p, status, b, all)
	}
}

func (w *world) judgePod(v *verdict, p *runtime.Pod, status resource.PodStatus, b hal.Sandbox, all []hal.Container) {
	running, ended, failed := 0, 0, 0
	for _, k := range all {
		switch {
		case k.Sandbox != b.ID:
		case k.State == hal.ContainerRunning:
			running++
		case k.State == hal.ContainerExited && p.Restart != runtime.Always && (p.Restart == runtime.Never || k.ExitCode == 0):
			ended++
			if k.ExitCode != 0 {
				failed++
			}
		default:
			v.miss("container %s of pod %s is in the state %d", k.ID, p.Name, k.State)
		}
	}
	want := "Running"
	switch {
	case running > 0:
	case failed > 0:
		want = "Failed"
	default:
		want = "Succeeded"
	}
	// Those that have ended may be gone for want of space.
	if running+ended > len(p.Containers) || running+ended < len(p.Containers) && p.Restart == runtime.Always {
		v.miss("pod %s has %d containers that run and %d that have ended; want %d", p.Name, running, ended, len(p.Containers))
	}
	if status.Phase != want && running+ended == len(p.Containers) || status.Message != "" && running == len(p.Containers) {
		v.miss("the status of pod %s is %s, %q; want %s", p.Name, status.Phase, status.Message, want)
	}
}

// unattainable reports whether a pod names an image that cannot be got.
func (w *world) unattainable(p *runtime.Pod) bool {
	for _, c := range p.Containers {
		if w.containers.missing[c.Image] {
			return true
		}
	}
	return false
}
