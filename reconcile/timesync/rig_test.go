package timesync

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// built is the time of the build, truth that of the first look at the clock.
const (
	built = int64(1767225600e9)
	truth = built + int64(90*24*time.Hour)
)

// rig is a node in simulated time, with time servers.
type rig struct {
	t        *testing.T
	clock    *fake.Clock
	ntp      *fake.NTP
	jobs     *fake.Jobs
	settings *Settings
	sync     *Sync
	// drift is what the clock gains in millionths of the time.
	drift int64

	store *reconcile.Store
	loop  *reconcile.Loop
	by    reconcile.Owner
	round int
}

// newRig returns a node whose clock is off the true time, without a network.
func newRig(t *testing.T, off time.Duration) *rig {
	t.Helper()
	r := &rig{t: t, clock: fake.NewClock(truth + int64(off)), settings: &Settings{}, store: reconcile.NewStore(nil)}
	r.ntp, r.jobs = fake.NewNTP(r.clock, truth), fake.NewJobs(r.clock)
	r.jobs.Delay = 50e6
	var err error
	if r.loop, err = reconcile.NewLoop(r.store, 1); err != nil {
		t.Fatal(err)
	}
	r.sync = &Sync{Settings: func() *Settings { return r.settings }, Clock: r.clock, NTP: r.ntp, Jobs: r.jobs, Floor: built, Seed: 3}
	if err := r.loop.Add(r.sync); err != nil {
		t.Fatal(err)
	}
	r.by, err = r.store.Register("test", reconcile.Output{Kind: resource.MachineConfigKind},
		reconcile.Output{Kind: resource.RouteStatusKind}, reconcile.Output{Kind: resource.LeaseStatusKind})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// route gives the node a way out.
func (r *rig) route() {
	r.t.Helper()
	r.put(r.store.Routes.Put(r.by, resource.RouteStatus{Link: "eth0", Destination: hal.Prefix{Address: hal.Address{Len: 4}}}))
}

func (r *rig) put(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) configure(s Settings) {
	r.t.Helper()
	r.settings = &s
	r.round++
	r.put(r.store.MachineConfigs.Put(r.by, resource.MachineConfig{Source: "test", Bytes: strconv.Itoa(r.round)}))
}

// serve adds servers of those names and has the config name them.
func (r *rig) serve(names ...string) []*fake.NTPServer {
	var all []*fake.NTPServer
	for _, name := range names {
		s := &fake.NTPServer{Name: name, Delay: 20e6, RootDelay: 5e6, RootDispersed: 2e6}
		r.ntp.Join(s)
		all = append(all, s)
	}
	r.configure(Settings{Servers: names})
	return all
}

func (r *rig) now() time.Duration { return time.Duration(r.clock.SinceBoot()) }

func (r *rig) run(d time.Duration) {
	r.t.Helper()
	end := r.now() + d
	for passes := 0; ; passes++ {
		if passes > 1000000 {
			r.t.Fatalf("the loop never rests at %v", r.now())
		}
		r.jobs.Step()
		next := min(r.loop.Pass(r.now()), end)
		if due, ok := r.jobs.Due(); ok {
			next = min(next, time.Duration(due))
		}
		if next > r.now() {
			step := int64(next - r.now())
			r.clock.Drift(step * r.drift / 1e6)
			r.clock.Advance(step)
			continue
		}
		if r.now() >= end {
			return
		}
	}
}

func (r *rig) status() resource.TimeStatus {
	r.t.Helper()
	s, _, ok := r.store.Time.Get(resource.TimeStatus{}.Key())
	if !ok {
		r.t.Fatal("there is no time status")
	}
	return s
}

// expectRight checks that the clock is right within some time, and called so.
func (r *rig) expectRight(within time.Duration) {
	r.t.Helper()
	if off := time.Duration(r.ntp.Error()); off > within || off < -within || !r.status().Synced {
		r.t.Errorf("at %v the clock is off by %v, status %+v; want it right within %v", r.now(), off, r.status(), within)
	}
}

func (r *rig) expectUnset(message string) {
	r.t.Helper()
	if s := r.status(); s.Synced || s.SyncCount != 0 || !strings.Contains(s.Message, message) {
		r.t.Errorf("at %v the status is %+v; want no time, and %q", r.now(), s, message)
	}
}
