package main

import (
	"strconv"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile/runtime"
)

// podMishaps are what happens to the container runtime and what it runs.
func podMishaps() []mishap {
	return []mishap{
		{6, (*world).crashContainer}, {3, func(w *world) { w.kill("somebody kills it") }}, {3, func(w *world) { w.containers.dieAfter = int(w.between(1, 12)) }},
		{3, func(w *world) { w.stick(time.Duration(w.seconds(5, 150))) }}, {3, (*world).troubleRegistry}, {3, (*world).loseImage},
		{3, (*world).fill}, {2, (*world).addForeignPod}, {3, (*world).stopSandbox}, {2, (*world).troubleNetwork}, {2, (*world).troubleProbes},
		{1, (*world).resetRuntime}, {8, (*world).changePods},
	}
}

func (w *world) randomPods() (pods []runtime.Pod) {
	for i := range 4 {
		if w.chance(40) {
			continue
		}
		p := runtime.Pod{
			Name: "pod" + strconv.Itoa(i), HostNetwork: w.chance(40), StopGrace: dur(w.seconds(0, 5)),
			Restart: pick(w, runtime.Always, runtime.Always, runtime.OnFailure, runtime.Never),
		}
		for k := range w.between(1, 2) {
			p.Containers = append(p.Containers, w.randomContainer(int(k), p.Restart))
		}
		pods = append(pods, p)
	}
	w.rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return pods
}

func (w *world) randomContainer(number int, restart runtime.Restart) runtime.Container {
	c := runtime.Container{ContainerSpec: hal.ContainerSpec{Name: "c" + strconv.Itoa(number), UID: -1, GID: -1}}
	c.Image = pick(w, "app0:1", "app0:1", "app1:1", "app2:1", "app3:1", "app4:1", "card:1", "card:2")
	if w.chance(2) {
		c.Image = "none:1"
	}
	if w.chance(30) {
		c.Env = []hal.EnvVar{{Name: "N", Value: strconv.Itoa(w.rng.IntN(3))}}
	}
	switch {
	case restart == runtime.Never && w.chance(40):
		c.Args = []string{fake.Exit, pick(w, "0", "0", "3")}
	case restart == runtime.OnFailure && w.chance(40):
		c.Args = []string{fake.Exit, "0"}
	case w.chance(20):
		c.Probe = &runtime.Probe{Kind: runtime.ProbeTCP, Target: ":80", Period: 30 * time.Second, Timeout: time.Second, Threshold: 3}
	}
	return c
}

func (w *world) changePods() {
	next := *w.node.settings
	next.Runtime.Pods = append([]runtime.Pod(nil), next.Runtime.Pods...)
	pods := next.Runtime.Pods
	switch other := w.randomPods(); {
	case len(pods) == 0 || len(other) == 0 || w.chance(40):
		next.Runtime.Pods = other
	case w.chance(30): // renamed
		free := "pod" + strconv.Itoa(w.rng.IntN(6))
		if podOf(&next, free) == nil {
			pods[0].Name = free
		}
	case w.chance(50): // taken out, and back in as it was
		pod := pods[0]
		next.Runtime.Pods = pods[1:]
		w.later(w.between(0, 10*second), func() {
			if podOf(w.node.settings, pod.Name) == nil {
				again := *w.node.settings
				again.Runtime.Pods = append([]runtime.Pod{pod}, again.Runtime.Pods...)
				w.node.configure(&again)
			}
		})
	default: // another spec of the same name
		pods[0].Containers = other[0].Containers
		pods[0].Restart = other[0].Restart
	}
	w.counts.configs++
	w.note("other pods")
	w.node.configure(&next)
}

func (w *world) crashContainer() {
	c := w.inner()
	if c == nil {
		return
	}
	pods, all, _ := c.Pods()
	if len(all) == 0 {
		return
	}
	k := all[w.rng.IntN(len(all))]
	for _, b := range pods {
		if b.ID == k.Sandbox && c.Crash(b.Name, k.Name, pick[int32](w, 0, 1, 137, 143), pick(w, "", "OOMKilled")) {
			w.counts.crashes++
			w.note("%s of %s ends", k.ID, b.ID)
		}
	}
}

func (w *world) troubleRegistry() {
	w.containers.away = true
	w.later(w.seconds(5, 240), func() { w.containers.away = false })
}

// loseImage takes an image that the runtime has.
func (w *world) loseImage() {
	c := w.inner()
	if c == nil {
		return
	}
	if all, _ := c.Images(); len(all) > 0 {
		if i := all[w.rng.IntN(len(all))]; !i.Pinned {
			w.note("image %s vanishes", i.ID)
			_ = c.RemoveImage(i.ID)
		}
	}
}

// fill takes space of the disk, or gives it back.
func (w *world) fill() {
	s := &w.containers
	if s.filled > 0 && w.chance(50) {
		w.empty()
		return
	}
	if c := w.inner(); c != nil {
		take := min(uint64(w.between(1, gib)), c.Free)
		c.Free -= take
		s.filled += take
		w.note("the disk fills up to %d of %d bytes", c.Size-c.Free, c.Size)
	}
}

func (w *world) empty() {
	for _, c := range w.containers.kept {
		all, _ := c.Images()
		c.Free = c.Size
		for _, i := range all {
			c.Free -= i.SizeBytes
		}
	}
	w.containers.filled = 0
}

// addForeignPod is somebody else's pod, with a container and an image of its own.
func (w *world) addForeignPod() {
	c := w.inner()
	if c == nil || c.Import("foreign") != nil {
		return
	}
	id, err := c.RunPod(hal.SandboxSpec{HostNetwork: true})
	if err != nil {
		return
	}
	k, err := c.CreateContainer(id, hal.SandboxSpec{}, hal.ContainerSpec{Name: "c0", Image: "sha256:foreign:1"})
	if err == nil {
		_ = c.StartContainer(k)
	}
	w.counts.foreign++
	w.note("somebody runs a pod, %s", id)
}

// stopSandbox ends a sandbox, as when the process that holds it is killed.
func (w *world) stopSandbox() {
	c := w.inner()
	if c == nil {
		return
	}
	if all, _, _ := c.Pods(); len(all) > 0 {
		b := all[w.rng.IntN(len(all))]
		w.note("sandbox %s ends", b.ID)
		_ = c.StopPod(b.ID)
	}
}

func (w *world) troubleNetwork() {
	w.containers.networked = false
	w.later(w.seconds(1, 60), func() { w.containers.networked = true })
}

func (w *world) troubleProbes() {
	w.containers.unwell = true
	w.later(w.seconds(10, 240), func() { w.containers.unwell = false })
}

// resetRuntime has the runtime begin anew, as with a damaged database.
func (w *world) resetRuntime() {
	place := w.containers.place
	if place == "" {
		return
	}
	_ = w.files.Remove(w.marker())
	w.kill("it begins anew")
	delete(w.containers.kept, place)
}

// calmContainers ends what goes wrong by itself.
func (w *world) calmContainers() {
	s := &w.containers
	s.away, s.unwell, s.networked, s.dieAfter = false, false, true, 0
	w.podJobs.Heal()
	w.empty()
}
