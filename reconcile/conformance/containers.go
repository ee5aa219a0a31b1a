package conformance

import (
	"strconv"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile"
	"machined/reconcile/resource"
	"machined/reconcile/runtime"
)

func containerCases() []Case {
	return []Case{
		{"containers: a pod is made and stays", podStays},
		{"containers: a pod of another spec is replaced, one of no config removed", podReplaced},
		{"containers: what others run is left alone", podForeign},
		{"containers: a stuck runtime is told of, and its pods survive", podStuck},
		{"containers: a container that ends starts again, more slowly each time", podCrashes},
		{"containers: images of the card come before the first pod", podCard},
		{"containers: a full disk loses images that nobody uses", podCollect},
	}
}

// podRig is the controllers of containers on a simulated runtime.
type podRig struct {
	t        T
	clock    *fake.Clock
	jobs     *fake.Jobs
	cri      *fake.CRI
	store    *reconcile.Store
	loop     *reconcile.Loop
	by       reconcile.Owner
	settings *runtime.Settings
	bundles  []runtime.Bundle
	configs  int
}

func newPodRig(t T, pods ...runtime.Pod) *podRig {
	clock := fake.NewClock(0)
	r := &podRig{t: t, clock: clock, jobs: fake.NewJobs(clock), cri: fake.NewCRI(), settings: &runtime.Settings{Pods: pods}}
	r.cri.Registry = []fake.Source{{Ref: "web:1", Image: hal.Image{ID: "sha256:web", Tags: []string{"web:1"}, SizeBytes: uint64(mib)}}}
	r.jobs.Delay = second / 10
	settings := func() *runtime.Settings { return r.settings }
	files := &fake.Files{}
	controller := &runtime.Pods{
		Settings: settings, CRI: r.cri, Jobs: r.jobs, LogDir: "/run/logs",
		Prepare: func(*runtime.Pod) error { return nil }, Check: func(runtime.Probe, string) error { return nil },
		Images: &runtime.Importer{Bundles: func() ([]runtime.Bundle, error) { return r.bundles, nil }, Files: files, Marker: "/var/imported"},
	}
	r.loop, r.store = newLoop(t, &runtime.Status{Settings: settings, CRI: r.cri, Jobs: r.jobs}, controller,
		&runtime.Collect{Settings: settings, CRI: r.cri, Jobs: r.jobs, Pods: controller})
	by, err := r.store.Register("test", reconcile.Output{Kind: resource.ServiceStatusKind}, reconcile.Output{Kind: resource.MachineConfigKind})
	expect(t, "Register", err, nil)
	r.by = by
	expect(t, "Put", r.store.Services.Put(by, resource.ServiceStatus{ServiceID: runtime.ServiceID, State: "Running"}), nil)
	return r
}

func (r *podRig) configure(pods ...runtime.Pod) {
	r.settings = &runtime.Settings{Pods: pods}
	r.configs++
	expect(r.t, "Put", r.store.MachineConfigs.Put(r.by, resource.MachineConfig{Bytes: strconv.Itoa(r.configs)}), nil)
}

// run goes from event to event for d.
func (r *podRig) run(d time.Duration) {
	end := r.clock.SinceBoot() + int64(d)
	for range 20_000 {
		r.jobs.Step()
		now := r.clock.SinceBoot()
		next := int64(r.loop.Pass(time.Duration(now)))
		if due, any := r.jobs.Due(); any {
			next = min(next, due)
		}
		if next > end {
			r.clock.Advance(max(end-now, 0))
			return
		}
		r.clock.Advance(max(next-now, 0))
	}
	r.t.Fail("the loop does not come to rest")
}

// told checks what the runtime was told since the last time.
func (r *podRig) told(want string) {
	got := ""
	for i, call := range r.cri.Calls {
		if i > 0 {
			got += ", "
		}
		got += call
	}
	r.cri.Calls = nil
	sameText(r.t, "the calls", got, want)
}

func (r *podRig) phase(name, want string) resource.PodStatus {
	s, _, _ := r.store.Pods.Get(resource.Named(name))
	sameText(r.t, "the phase of "+name, s.Phase, want)
	return s
}

func webPod(args ...string) runtime.Pod {
	return runtime.Pod{Name: "web", Containers: []runtime.Container{{ContainerSpec: hal.ContainerSpec{Name: "web", Image: "web:1", Args: args}}}}
}

func podStays(t T) {
	r := newPodRig(t, webPod())
	r.run(10 * time.Second)
	check(t, r.phase("web", "Running").Ready, "the pod is ready")
	r.told("pull web:1, run web, create web/web#0")
	r.configure(webPod())
	r.run(time.Hour)
	r.told("")
}

func podReplaced(t T) {
	r := newPodRig(t, webPod())
	r.run(10 * time.Second)
	r.told("pull web:1, run web, create web/web#0")
	r.configure(webPod("-v"))
	r.run(10 * time.Second)
	r.told("term web/web-2, stop web-1, remove web-1, run web, create web/web#0")
	r.configure()
	r.run(10 * time.Second)
	r.told("term web/web-4, stop web-3, remove web-3")
	check(t, r.store.Pods.Len() == 0, "no pod is published")
}

func podForeign(t T) {
	r := newPodRig(t)
	_, err := r.cri.RunPod(hal.SandboxSpec{})
	expect(t, "RunPod", err, nil)
	r.told("run ")
	r.run(time.Hour)
	r.told("")
}

func podStuck(t T) {
	r := newPodRig(t, webPod())
	r.run(time.Minute)
	r.jobs.Stuck = true
	r.run(21 * time.Second)
	s, _, _ := r.store.Runtimes.Get(resource.Named(runtime.ServiceID))
	check(t, !s.Ready, "the runtime is not ready")
	sameText(t, "the message", s.Message, "it does not answer")
	r.phase("web", "Unknown")
	r.jobs.Heal()
	r.cri.Calls = nil
	r.run(time.Minute)
	r.phase("web", "Running")
	r.told("")
}

func podCrashes(t T) {
	r := newPodRig(t, webPod())
	r.run(10 * time.Second)
	for range 600 {
		r.cri.Crash("web", "web", 1, "")
		r.run(time.Second)
	}
	s, _, _ := r.store.Pods.Get(resource.Named("web"))
	check(t, s.Restarts >= 8 && s.Restarts <= 20, "restarts in ten minutes are about 14, not "+strconv.Itoa(int(s.Restarts)))
	r.run(2 * time.Minute)
	r.phase("web", "Running")
}

func podCard(t T) {
	pod := webPod()
	pod.Containers[0].Image = "mine:1"
	r := newPodRig(t, pod)
	r.bundles = []runtime.Bundle{{Path: "/boot/mine.tar", Stamp: "1"}}
	r.cri.Card = []fake.Source{{Ref: "/boot/mine.tar", Image: hal.Image{ID: "sha256:mine", Tags: []string{"mine:1"}}}}
	r.run(10 * time.Second)
	r.phase("web", "Running")
	r.told("import /boot/mine.tar, run web, create web/web#0")
}

func podCollect(t T) {
	r := newPodRig(t, webPod())
	r.cri.Card = []fake.Source{
		{Ref: "old", Image: hal.Image{ID: "sha256:old", SizeBytes: uint64(mib)}}, {Ref: "pinned", Image: hal.Image{ID: "sha256:pinned", Pinned: true}},
	}
	expect(t, "Import", r.cri.Import("old"), nil)
	expect(t, "Import", r.cri.Import("pinned"), nil)
	r.run(10 * time.Minute)
	r.cri.Calls = nil
	r.cri.Size, r.cri.Free = uint64(100*mib), uint64(mib)
	r.run(10 * time.Minute)
	r.told("remove image sha256:old")
	r.phase("web", "Running")
}
