package timesync

import (
	"slices"
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile/resource"
)

// TestFirstSync: a board without a clock of its own needs the time as soon as
// there is a network.
func TestFirstSync(t *testing.T) {
	r := newRig(t, -50*365*24*time.Hour)
	r.serve("a")
	r.run(37 * time.Second)
	r.expectUnset("waiting for a route")
	if len(r.ntp.Asked) != 0 {
		t.Errorf("%d questions without a network; want none", len(r.ntp.Asked))
	}
	// A link's own addresses are no way to a server.
	r.put(r.store.Routes.Put(r.by, resource.RouteStatus{Link: "lo", Destination: hal.Prefix{Address: hal.Address{Len: 4, Bytes: [16]byte{127}}, Bits: 8}}))
	r.put(r.store.Routes.Put(r.by, resource.RouteStatus{Link: "eth0", Destination: hal.Prefix{Address: hal.Address{Len: 16, Bytes: [16]byte{0xfe, 0x80}}, Bits: 64}}))
	r.run(10 * time.Second)
	if len(r.ntp.Asked) != 0 {
		t.Errorf("%d questions with the link's own routes; want none", len(r.ntp.Asked))
	}
	r.route()
	r.run(time.Second)
	r.expectRight(time.Millisecond)
	if s := r.status(); s.Server != "a" || s.SyncCount != 1 || s.Message != "" || s.OffsetNS < int64(49*365*24*time.Hour) {
		t.Errorf("the status is %+v; want the server and the offset", s)
	}
}

// TestRouteDuringABadRound: the first round began too early, and has yet to time
// out when the way is there.
func TestRouteDuringABadRound(t *testing.T) {
	r := newRig(t, -time.Hour)
	server := r.serve("a")[0]
	server.Silent = true
	r.jobs.Delay = 5e9
	r.route()
	r.run(time.Second)
	server.Silent = false
	r.jobs.Delay = 50e6
	r.put(r.store.Routes.Put(r.by, resource.RouteStatus{Link: "eth0", Destination: hal.Prefix{Address: hal.Address{Len: 4, Bytes: [16]byte{10}}, Bits: 8}}))
	r.run(5 * time.Second)
	r.expectRight(time.Millisecond)
}

func TestStepAndSlew(t *testing.T) {
	for _, c := range []struct {
		off   time.Duration
		slews bool
	}{
		{100 * time.Millisecond, true}, {-100 * time.Millisecond, true}, {127 * time.Millisecond, true},
		{128 * time.Millisecond, false}, {-128 * time.Millisecond, false}, {time.Hour, false}, {0, true},
	} {
		r := newRig(t, c.off)
		r.clock.FailAlways("Set", hal.ErrInvalid)
		r.serve("a")
		r.route()
		r.run(time.Second)
		if got := r.status().Synced; got != c.slews {
			t.Errorf("off by %v: slewed: %v; want %v", c.off, got, c.slews)
		}
		r.clock.Heal("Set")
		r.run(10 * time.Minute)
		r.expectRight(time.Millisecond)
	}
}

// TestPolls has clocks of all kinds: the better one is, the less it is asked
// for, and none is far off for long.
func TestPolls(t *testing.T) {
	for _, c := range []struct {
		drift       int64 // millionths
		least, most int
		within      time.Duration
	}{
		{0, 42, 60, time.Millisecond}, {5, 42, 200, 25 * time.Millisecond}, {-50, 200, 1400, 45 * time.Millisecond}, {200, 400, 1400, 45 * time.Millisecond},
	} {
		r := newRig(t, 3*time.Second)
		r.drift = c.drift
		r.serve("a")
		r.route()
		r.run(2 * time.Hour)
		r.ntp.Asked = nil
		for range 24 {
			r.run(time.Hour)
			r.expectRight(c.within)
		}
		if n := len(r.ntp.Asked); n < c.least || n > c.most {
			t.Errorf("a clock that gains %d millionths: %d questions a day; want %d to %d", c.drift, n, c.least, c.most)
		}
	}
}

func TestNoAnswer(t *testing.T) {
	r := newRig(t, time.Hour)
	server := r.serve("a")[0]
	server.Silent = true
	r.route()
	r.run(time.Hour)
	r.expectUnset("a: i/o timeout")
	if n := len(r.ntp.Asked); n < 50 || n > 70 {
		t.Errorf("%d questions in an hour without an answer; want about one a minute", n)
	}
	server.Silent = false
	r.run(70 * time.Second)
	r.expectRight(time.Millisecond)
}

// TestHungQuery: a job that does not end is left behind.
func TestHungQuery(t *testing.T) {
	r := newRig(t, time.Hour)
	r.serve("hangs", "b", "c")
	r.jobs.Delays = func(n int) int64 {
		if n%3 == 1 {
			return int64(time.Hour)
		}
		return 50e6
	}
	r.route()
	r.run(9 * time.Second)
	r.expectUnset("")
	r.run(2 * time.Second)
	r.expectRight(time.Millisecond)
}

func TestLiars(t *testing.T) {
	hour := int64(time.Hour)
	for _, c := range []struct {
		name    string
		offsets []int64
		right   bool
		why     string
	}{
		{"one that is wrong", []int64{0, hour, 0}, true, ""},
		{"one of four", []int64{hour, 1e6, 0, -1e6}, true, ""},
		{"two that disagree", []int64{0, hour}, false, "the time servers disagree"},
		{"two against two", []int64{0, hour, 0, hour}, false, "the time servers disagree"},
		{"all disagree", []int64{0, hour, 2 * hour}, false, "the time servers disagree"},
		{"two that agree", []int64{0, 2e6}, true, ""},
		{"before the build", []int64{-int64(91 * 24 * time.Hour)}, false, "a: its time is before this program was built"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, -20*time.Second)
			for i, s := range r.serve([]string{"a", "b", "c", "d"}[:len(c.offsets)]...) {
				s.Offset = c.offsets[i]
			}
			r.route()
			r.run(time.Minute)
			if !c.right {
				r.expectUnset(c.why)
				return
			}
			r.expectRight(3 * time.Millisecond)
		})
	}
}

func TestServersThatAreNotBelieved(t *testing.T) {
	for why, spoil := range map[string]func(*fake.NTPServer){
		"a: it has no time itself":         func(s *fake.NTPServer) { s.Leap = 3 },
		"a: its time is too uncertain":     func(s *fake.NTPServer) { s.RootDispersed = 2e9 },
		"a: it has no time itself: INIT":   func(s *fake.NTPServer) { s.Kiss = "INIT" },
		"all time servers ask to be left ": func(s *fake.NTPServer) { s.Kiss = "DENY" },
	} {
		r := newRig(t, time.Minute)
		s := r.serve("a")[0]
		old := *s
		spoil(s)
		r.route()
		r.run(time.Minute)
		r.expectUnset(why)
		// None that just has no time yet is sent away for long.
		*s = old
		r.run(2 * time.Minute)
		if got, want := r.status().Synced, !strings.HasPrefix(why, "all"); got != want {
			t.Errorf("%q: synchronised two minutes after: %v; want %v", why, got, want)
		}
	}
}

func TestKissOfDeath(t *testing.T) {
	r := newRig(t, time.Minute)
	servers := r.serve("a", "b")
	servers[0].Kiss = "RATE"
	r.route()
	r.run(time.Second)
	r.expectRight(time.Millisecond)
	r.run(50 * time.Minute)
	if n := len(slices.DeleteFunc(slices.Clone(r.ntp.Asked), func(s string) bool { return s != "a" })); n != 1 {
		t.Errorf("a server that asks to be left alone was asked %d times in 50 minutes; want once", n)
	}
	servers[0].Kiss = ""
	r.run(time.Hour)
	if last := r.ntp.Asked[len(r.ntp.Asked)-2:]; !slices.Contains(last, "a") {
		t.Errorf("the last servers asked are %q; want the one that was left alone for an hour among them", last)
	}
}

// TestDoubt: a clock that has been right is not set by hours at the first word.
func TestDoubt(t *testing.T) {
	r := newRig(t, time.Minute)
	s := r.serve("a")[0]
	r.route()
	r.run(time.Second)
	// A server goes mad for one round, and for another in another way.
	for _, offset := range []time.Duration{5 * time.Hour, -9 * time.Hour} {
		s.Offset = int64(offset)
		for asked := len(r.ntp.Asked); len(r.ntp.Asked) == asked; {
			r.run(100 * time.Millisecond)
		}
		r.run(100 * time.Millisecond)
		if why := r.status().Message; !strings.HasPrefix(why, "a is ") || !strings.HasSuffix(why, "s off; asking again") {
			t.Errorf("with a server off by %v the message is %q", offset, why)
		}
	}
	s.Offset = 0
	r.run(time.Minute)
	r.expectRight(time.Millisecond)
	// It was our clock.
	r.clock.Drift(int64(3 * time.Hour))
	r.run(5 * time.Minute)
	r.expectRight(time.Millisecond)
}

func TestStale(t *testing.T) {
	r := newRig(t, time.Minute)
	s := r.serve("a")[0]
	r.route()
	r.run(time.Second)
	s.Silent = true
	r.run(staleAfter - time.Minute)
	r.expectRight(time.Millisecond)
	r.run(2 * time.Minute)
	if st := r.status(); st.Synced || st.Message == "" {
		t.Errorf("after %v without an answer the status is %+v; want it not synchronised", staleAfter, st)
	}
	s.Silent = false
	r.run(2 * time.Minute)
	r.expectRight(time.Millisecond)
}

func TestDisabled(t *testing.T) {
	r := newRig(t, time.Minute)
	r.serve("a")
	r.configure(Settings{Disabled: true, Servers: []string{"a"}})
	r.route()
	r.run(time.Hour)
	r.expectUnset("disabled by the config")
	if len(r.ntp.Asked) != 0 {
		t.Errorf("%d questions while it is disabled; want none", len(r.ntp.Asked))
	}
	r.configure(Settings{Servers: []string{"a"}})
	r.run(time.Second)
	r.expectRight(time.Millisecond)
	r.configure(Settings{Disabled: true})
	r.run(time.Second)
	if s := r.status(); s.Synced || s.Server != "" {
		t.Errorf("the status is %+v; want it disabled", s)
	}
}

// TestWhoIsAsked: the config's servers, else those of leases, else public ones;
// and others as soon as that changes.
func TestWhoIsAsked(t *testing.T) {
	r := newRig(t, 0)
	for _, name := range append(Fallback(), "192.168.7.2", "10.7.0.1", "mine") {
		r.ntp.Join(&fake.NTPServer{Name: name})
	}
	asked := func(want ...string) {
		t.Helper()
		r.ntp.Asked = nil
		r.run(5 * time.Second)
		if !slices.Equal(r.ntp.Asked, want) {
			t.Errorf("at %v the servers asked are %q; want %q", r.now(), r.ntp.Asked, want)
		}
	}
	r.route()
	asked(Fallback()...)
	r.put(r.store.Leases.Put(r.by, resource.LeaseStatus{Link: "eth0", TimeServers: "192.168.7.2"}))
	asked("192.168.7.2")
	r.put(r.store.Leases.Put(r.by, resource.LeaseStatus{Link: "eth1", TimeServers: "10.7.0.1"}))
	asked("192.168.7.2", "10.7.0.1")
	r.configure(Settings{Servers: []string{"mine"}})
	asked("mine")
	r.configure(Settings{Servers: []string{"mine"}})
	asked()
	r.configure(Settings{})
	asked("192.168.7.2", "10.7.0.1")
	r.configure(Settings{Servers: []string{"a", "b", "c", "d", "e", "f"}})
	asked("a", "b", "c", "d", "a", "b", "c", "d") // and again, as none answers
}

func TestClockThatCannotBeSet(t *testing.T) {
	r := newRig(t, time.Minute)
	r.serve("a")
	r.route()
	r.clock.FailAlways("Set", hal.Error("operation not permitted"))
	r.run(10 * time.Minute)
	r.expectUnset("the clock cannot be set: operation not permitted")
	if n := len(r.ntp.Asked); n > 20 {
		t.Errorf("%d questions in 10 minutes; want fewer and fewer", n)
	}
	r.clock.Heal("Set")
	r.run(2 * time.Minute)
	r.expectRight(time.Millisecond)
}

// TestRouteStorm: pods make routes all the time; the servers must not be asked
// for each.
func TestRouteStorm(t *testing.T) {
	r := newRig(t, time.Minute)
	s := r.serve("a")[0]
	s.Silent = true
	r.route()
	for i := range 600 {
		r.put(r.store.Routes.Put(r.by, resource.RouteStatus{Link: "eth0", Metric: uint32(i), Destination: hal.Prefix{Address: hal.Address{Len: 4}}}))
		r.run(100 * time.Millisecond)
	}
	if n := len(r.ntp.Asked); n > 31 {
		t.Errorf("%d questions in a minute; want one in 2 s at most", n)
	}
}

func TestRest(t *testing.T) {
	r := newRig(t, 0)
	r.serve("a")
	r.route()
	r.run(6 * time.Hour)
	status, _, _ := r.store.Controllers.Get(resource.Named("time-sync"))
	r.run(6 * time.Hour)
	after, _, _ := r.store.Controllers.Get(resource.Named("time-sync"))
	// A round is two runs: one that asks and one that takes the answers.
	if got := after.Runs - status.Runs; got > 2*12+4 {
		t.Errorf("%d runs in 6 hours of a clock that is right; want two each 34 minutes", got)
	}
}

func FuzzChoose(f *testing.F) {
	f.Add(int64(0), int64(5), int64(3), int64(5), int64(100), int64(1))
	f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, o1, d1, o2, d2, o3, d3 int64) {
		const most = 1 << 40
		all := []candidate{{"a", o1 % most, max(d1%most, 0)}, {"b", o2 % most, max(d2%most, 0)}, {"c", o3 % most, max(d3%most, 0)}}
		best, ok := choose(all)
		agree := 0
		for _, c := range all {
			if c.offset-c.distance <= best.offset+best.distance && best.offset-best.distance <= c.offset+c.distance {
				agree++
			}
		}
		if ok && agree < 2 {
			t.Errorf("choose(%v) = %v, with which %d agree; want a majority", all, best, agree)
		}
	})
}
