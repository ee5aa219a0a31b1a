package runtime

import (
	"slices"
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// rig runs the controllers on a simulated runtime, in simulated time.
type rig struct {
	t        *testing.T
	clock    *fake.Clock
	jobs     *fake.Jobs
	files    *fake.Files
	cri      *fake.CRI
	seen     hal.CRI // what the controllers see of it
	store    *reconcile.Store
	loop     *reconcile.Loop
	by       reconcile.Owner
	settings *Settings
	pods     *Pods
	bundles  []Bundle
	checks   []string // what probes were asked
	checkErr error
	prepared []string
	round    int
}

func newRig(t *testing.T, pods ...Pod) *rig {
	t.Helper()
	clock := fake.NewClock(0)
	r := &rig{
		t: t, clock: clock, jobs: fake.NewJobs(clock), files: &fake.Files{}, cri: fake.NewCRI(),
		store: reconcile.NewStore(nil), settings: &Settings{Pods: pods},
	}
	r.seen = r.cri
	r.cri.Registry = []fake.Source{{Ref: "web:1", Image: image("sha256:web", "web:1")}, {Ref: "db:1", Image: image("sha256:db", "db:1")}}
	r.start()
	return r
}

func image(id, tag string) hal.Image {
	return hal.Image{ID: id, Tags: []string{tag}, SizeBytes: 1 << 20}
}

// start builds the controllers, as a node does that starts.
func (r *rig) start() {
	r.t.Helper()
	r.store = reconcile.NewStore(nil)
	var err error
	if r.loop, err = reconcile.NewLoop(r.store, 1); err != nil {
		r.t.Fatal(err)
	}
	settings := func() *Settings { return r.settings }
	r.pods = &Pods{
		Settings: settings, CRI: r.seen, Jobs: r.jobs, LogDir: "/run/logs",
		Prepare: func(p *Pod) error { r.prepared = append(r.prepared, p.Name); return nil },
		Check: func(p Probe, address string) error {
			r.checks = append(r.checks, p.Target+" at "+address)
			return r.checkErr
		},
		Images: &Importer{Bundles: func() ([]Bundle, error) { return r.bundles, nil }, Files: r.files, Marker: "/var/imported"},
	}
	for _, c := range []reconcile.Controller{
		&Status{Settings: settings, CRI: r.seen, Jobs: r.jobs}, r.pods,
		&Collect{Settings: settings, CRI: r.seen, Jobs: r.jobs, Pods: r.pods},
	} {
		if err := r.loop.Add(c); err != nil {
			r.t.Fatal(err)
		}
	}
	if r.by, err = r.store.Register("test", reconcile.Output{Kind: resource.ServiceStatusKind}, reconcile.Output{Kind: resource.MachineConfigKind}); err != nil {
		r.t.Fatal(err)
	}
	r.service("Running")
}

func (r *rig) service(state string) {
	r.t.Helper()
	if err := r.store.Services.Put(r.by, resource.ServiceStatus{ServiceID: ServiceID, State: state}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) servicePID(pid int64) {
	r.t.Helper()
	if err := r.store.Services.Put(r.by, resource.ServiceStatus{ServiceID: ServiceID, State: "Running", PID: pid}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) configure(pods ...Pod) {
	r.t.Helper()
	r.round++
	r.settings = &Settings{Pods: pods, Registries: r.settings.Registries}
	if err := r.store.MachineConfigs.Put(r.by, resource.MachineConfig{Source: strings.Repeat("x", r.round)}); err != nil {
		r.t.Fatal(err)
	}
}

// run goes from event to event for d.
func (r *rig) run(d time.Duration) {
	r.t.Helper()
	end := r.clock.SinceBoot() + int64(d)
	for passes := 0; ; passes++ {
		if passes > 20_000 {
			r.t.Fatal("the loop does not come to rest")
		}
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
}

func (r *rig) pod(name string) resource.PodStatus {
	s, _, _ := r.store.Pods.Get(resource.Named(name))
	return s
}

func (r *rig) runtime() resource.RuntimeStatus {
	s, _, _ := r.store.Runtimes.Get(resource.Named(ServiceID))
	return s
}

func (r *rig) want(name, phase, message string, restarts uint64) {
	r.t.Helper()
	if p := r.pod(name); p.Phase != phase || p.Message != message || p.Restarts != restarts {
		r.t.Errorf("pod %s at %v is %s, %q, %d restarts; want %s, %q, %d",
			name, time.Duration(r.clock.SinceBoot()), p.Phase, p.Message, p.Restarts, phase, message, restarts)
	}
}

func (r *rig) failures() []string {
	var all []string
	for i := 0; i < r.store.Controllers.Len(); i++ {
		if c, _ := r.store.Controllers.At(i); c.LastError != "" {
			all = append(all, c.Name+": "+c.LastError)
		}
	}
	return all
}

// calls returns what the runtime was told since the last time.
func (r *rig) calls() []string {
	out := slices.Clone(r.cri.Calls)
	r.cri.Calls = nil
	return out
}

func (r *rig) wantCalls(want ...string) {
	r.t.Helper()
	if got := r.calls(); !slices.Equal(got, want) {
		r.t.Errorf("the runtime was told\n  %q\nwant\n  %q", got, want)
	}
}

func web() Pod {
	return Pod{Name: "web", Restart: Always, StopGrace: 5 * time.Second, Containers: []Container{{ContainerSpec: hal.ContainerSpec{Name: "web", Image: "web:1"}}}}
}
