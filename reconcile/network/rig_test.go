package network

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// rig is a node's network in simulated time: the loop and its controllers on a
// simulated kernel, with DHCP servers on its links.
type rig struct {
	t        *testing.T
	clock    *fake.Clock
	links    *fake.Links
	dhcp     *fake.DHCP
	files    *fake.Files
	jobs     *fake.Jobs
	host     *fake.Host
	settings *Settings
	keep     string // directory that outlasts a restart

	store *reconcile.Store
	loop  *reconcile.Loop
	by    reconcile.Owner
	round int
}

const runDir, keepDir, resolver = "/run/dhcp", "/state/dhcp", "/run/resolv.conf"

// newRig returns a node without links. add changes it before it runs.
func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, clock: fake.NewClock(1767225600e9), links: &fake.Links{}, files: &fake.Files{}, host: fake.NewHost("(none)"),
		settings: &Settings{}, keep: keepDir,
	}
	r.clock.Advance(1e9)
	r.dhcp, r.jobs = fake.NewDHCP(r.clock), fake.NewJobs(r.clock)
	r.dhcp.Links = r.links
	r.start()
	return r
}

// start starts the program: anew, when one has run before.
func (r *rig) start() {
	r.t.Helper()
	r.store = reconcile.NewStore(nil)
	var err error
	if r.loop, err = reconcile.NewLoop(r.store, 1); err != nil {
		r.t.Fatal(err)
	}
	r.loop.Panicked = func(name string, value any) { r.t.Fatalf("%s panics: %v", name, value) }
	settings := func() *Settings { return r.settings }
	for _, c := range []reconcile.Controller{
		&Observe{Links: r.links},
		&DHCP{
			Client: r.dhcp, Files: r.files, Jobs: r.jobs, Hostname: func() string { return "node" }, Run: runDir,
			Keep: func() string { return r.keep }, Seed: 7,
		},
		&Config{Settings: settings}, &Apply{Links: r.links, Host: r.host},
		&Hostname{Settings: settings, Host: r.host}, &Resolver{Settings: settings, Files: r.files, Path: resolver},
	} {
		if err := r.loop.Add(c); err != nil {
			r.t.Fatal(err)
		}
	}
	r.by, err = r.store.Register("test", reconcile.Output{Kind: resource.MachineConfigKind}, reconcile.Output{Kind: resource.VolumeStatusKind})
	if err != nil {
		r.t.Fatal(err)
	}
}

// restart executes the program anew, as after an update of it.
func (r *rig) restart() {
	for _, l := range r.list() {
		r.dhcp.Close(l.Index)
	}
	r.start()
}

// reboot restarts the machine: what is in memory, in the kernel and in Run goes.
func (r *rig) reboot(links ...hal.Link) {
	for _, l := range r.list() {
		r.dhcp.Close(l.Index)
		r.links.Remove(l.Index)
		_ = r.files.Remove(runDir + "/" + l.Name)
	}
	for _, l := range links {
		r.links.Add(l)
	}
	r.start()
}

// configure changes the settings.
func (r *rig) configure(s Settings) {
	r.t.Helper()
	r.settings = &s
	r.round++
	if err := r.store.MachineConfigs.Put(r.by, resource.MachineConfig{Source: "test", Bytes: strconv.Itoa(r.round)}); err != nil {
		r.t.Fatal(err)
	}
}

// volume tells that a volume was mounted.
func (r *rig) volume() {
	r.t.Helper()
	if err := r.store.Volumes.Put(r.by, resource.VolumeStatus{Label: "STATE"}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) now() time.Duration { return time.Duration(r.clock.SinceBoot()) }

// run lets time pass. What is due now is done even with 0.
func (r *rig) run(d time.Duration) {
	r.t.Helper()
	end := r.now() + d
	for passes := 0; ; passes++ {
		if passes > 100000 {
			r.t.Fatalf("the loop never rests at %v", r.now())
		}
		r.jobs.Step()
		r.dhcp.Step()
		next := min(r.loop.Pass(r.now()), end)
		for _, due := range []func() (int64, bool){r.jobs.Due, r.dhcp.Due} {
			if at, ok := due(); ok {
				next = min(next, time.Duration(at))
			}
		}
		if next > r.now() {
			r.clock.Advance(int64(next - r.now()))
			continue
		}
		if r.now() >= end && r.idle() {
			return
		}
	}
}

// idle reports whether nothing is due at once.
func (r *rig) idle() bool {
	for _, due := range []func() (int64, bool){r.jobs.Due, r.dhcp.Due} {
		if at, ok := due(); ok && time.Duration(at) <= r.now() {
			return false
		}
	}
	return r.loop.Pass(r.now()) > r.now()
}

func (r *rig) list() []hal.Link {
	r.t.Helper()
	all, err := r.links.List()
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func (r *rig) index(name string) uint32 {
	r.t.Helper()
	return r.link(name).Index
}

func (r *rig) link(name string) hal.Link {
	r.t.Helper()
	for _, l := range r.list() {
		if l.Name == name {
			return l
		}
	}
	r.t.Fatalf("there is no link %s", name)
	return hal.Link{}
}

// expectAddresses checks the addresses that the kernel has on a link.
func (r *rig) expectAddresses(link string, want ...string) {
	r.t.Helper()
	all, err := r.links.Addresses(r.index(link))
	if err != nil {
		r.t.Fatal(err)
	}
	got := make([]string, 0, len(all))
	for _, a := range all {
		got = append(got, a.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("at %v %s has the addresses %v; want %v", r.now(), link, got, want)
	}
}

// expectRoutes checks the routes of a link, but for those to its own networks.
// They read "destination gateway metric".
func (r *rig) expectRoutes(link string, want ...string) {
	r.t.Helper()
	all, err := r.links.Routes()
	if err != nil {
		r.t.Fatal(err)
	}
	got := make([]string, 0, len(all))
	for _, route := range all {
		if route.Link == r.index(link) && (route.Gateway.Len > 0 || route.Metric != 0 && route.Metric != 256) {
			got = append(got, route.Destination.String()+" "+route.Gateway.String()+" "+strconv.Itoa(int(route.Metric)))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("at %v %s has the routes %q; want %q", r.now(), link, got, want)
	}
}

func (r *rig) lease(link string) resource.LeaseStatus {
	r.t.Helper()
	l, _, ok := r.store.Leases.Get(resource.Named(link))
	if !ok {
		r.t.Fatalf("at %v there is no lease status of %s", r.now(), link)
	}
	return l
}

func (r *rig) expectState(link, want string) {
	r.t.Helper()
	if l := r.lease(link); l.State != want {
		r.t.Errorf("at %v the lease of %s is %s; want %s (trouble: %q)", r.now(), link, l.State, want, l.Trouble)
	}
}

// sent returns what was sent since the last call, as "TYPE from>to ask", by time.
func (r *rig) sent() []string {
	var out []string
	for _, s := range r.dhcp.Sent {
		m := s.Message
		names := [...]string{1: "DISCOVER", 3: "REQUEST", 4: "DECLINE", 7: "RELEASE"}
		text := names[m.Type]
		if m.ClientAddress.Len > 0 {
			text += " from " + m.ClientAddress.String()
		}
		if s.Server.Len > 0 {
			text += " to " + s.Server.String()
		}
		if m.Requested.Len > 0 {
			text += " for " + m.Requested.String()
		}
		if m.Server.Len > 0 {
			text += " of " + m.Server.String()
		}
		out = append(out, text)
	}
	r.dhcp.Sent = nil
	return out
}

func (r *rig) expectSent(want ...string) {
	r.t.Helper()
	if got := r.sent(); !slices.Equal(got, want) {
		r.t.Errorf("until %v the client sent\n%q; want\n%q", r.now(), got, want)
	}
}

// expectNoFailures checks that no controller has an error.
func (r *rig) expectNoFailures() {
	r.t.Helper()
	for _, c := range r.store.Snapshot(resource.ControllerStatusKind) {
		if s := c.Resource.(resource.ControllerStatus); s.LastError != "" {
			r.t.Errorf("at %v %s fails: %s", r.now(), s.Name, s.LastError)
		}
	}
}

// expectRest checks that nothing moves and nothing is written while time passes.
func (r *rig) expectRest(d time.Duration) {
	r.t.Helper()
	r.run(0)
	moves, writes, changes, sent := r.storeMoves(), r.files.Writes, r.links.Changes(), len(r.dhcp.Sent)
	r.run(d)
	if got := r.storeMoves(); got != moves {
		r.t.Errorf("in %v of rest the store moved %d times; want none", d, got-moves)
	}
	if r.files.Writes != writes || r.links.Changes() != changes || len(r.dhcp.Sent) != sent {
		r.t.Errorf("in %v of rest: %d files written, %d changes of links, %d messages sent; want none",
			d, r.files.Writes-writes, r.links.Changes()-changes, len(r.dhcp.Sent)-sent)
	}
}

// storeMoves counts changes of all kinds but the loop's own.
func (r *rig) storeMoves() uint64 {
	return r.store.Moves() - r.store.Seq(resource.ControllerStatusKind)
}

func p(text string) hal.Prefix {
	if prefix, ok := parsePrefix(text); ok {
		return prefix
	}
	switch text {
	case "fd07::2/64":
		return prefix6(2)
	case "fd07::1/64":
		return prefix6(1)
	case "::/0":
		return hal.Prefix{Address: hal.Address{Len: 16}}
	case "fd99::/16":
		return hal.Prefix{Address: hal.Address{Bytes: [16]byte{0xfd, 0x99}, Len: 16}, Bits: 16}
	}
	panic("no prefix: " + text)
}

func prefix6(host byte) hal.Prefix {
	return hal.Prefix{Address: hal.Address{Bytes: [16]byte{0xfd, 7, 15: host}, Len: 16}, Bits: 64}
}

func ip(text string) hal.Address { return p(text + "/32").Address }

func mac(last byte) [6]byte { return [6]byte{2, 0, 0, 0, 0, last} }

// cable is a wired link with carrier.
func cable(name string, last byte) hal.Link {
	return hal.Link{Name: name, Wired: true, Carrier: true, MAC: mac(last)}
}

// server is a DHCP server as homes have it.
func server() *fake.DHCPServer {
	return &fake.DHCPServer{
		Address: ip("192.168.7.1"), First: p("192.168.7.100/24"), Size: 50, Authoritative: true,
		Options: hal.DHCPMessage{
			Lease: 3600, Routes: []hal.DHCPRoute{{Destination: p("0.0.0.0/0"), Gateway: ip("192.168.7.1")}},
			Nameservers: []hal.Address{ip("192.168.7.1")}, TimeServers: []hal.Address{ip("192.168.7.2")}, Search: []string{"lan"},
		},
	}
}
