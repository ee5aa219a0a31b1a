package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"machined/hal"
	"machined/hal/fake"
)

const (
	second = int64(time.Second)
	minute = 60 * second
	hour   = 60 * minute

	// birth is the true time at which each simulation starts, built the time of
	// the program that runs in it, in Unix nanoseconds.
	birth = 1_767_225_600 * second
	built = birth - 30*24*hour
)

// world is one simulated node and all that is around it.
type world struct {
	rng      *rand.Rand
	sabotage sabotage
	trace    trace
	counts   counts

	// The machine. The drivers that the node gets are wrapped; here they have
	// no faults, so that what is true can be looked at.
	clock       *fake.Clock
	host        *fake.Host
	links       *fake.Links
	dhcp        *fake.DHCP
	ntp         *fake.NTP
	blocks      *fake.BlockDevices
	provisioner *fake.Provisioner
	disks       *fake.Disks
	mounts      *fake.Mounts
	files       *fake.Files
	jobs        *fake.Jobs
	podJobs     *fake.Jobs // of the controllers of containers
	containers  containers

	nics   []*nic
	hosts  []*timeHost
	stores []*storage
	boot   *storage // the disk that the node boots from, nil for none
	serial int      // of the disk or file system that was made last
	drift  int64    // of the wall clock, nanoseconds a second

	node      *node
	ledger    ledger
	watchers  []*watcher
	plans     []plan
	nextChaos time.Duration // never when all is calm
	faults    []burst
	dead      bool // the power went in the middle of a pass
	cutAfter  int  // calls of drivers until it goes; 0 for not at all
	slow      int64
	window    window
	violation *violation
}

// plan is what happens at a time.
type plan struct {
	at time.Duration
	do func()
}

// violation is a promise that the node has broken.
type violation struct {
	invariant, what string
	at              time.Duration
}

func (v *violation) Error() string { return fmt.Sprintf("at %v: %s: %s", v.at, v.invariant, v.what) }

// newWorld makes the machine of a seed, and does not switch it on.
func newWorld(seed uint64, s sabotage, verbose io.Writer) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0x6d616368696e6564)), sabotage: s, slow: second / 2, nextChaos: never}
	w.trace = newTrace(verbose)
	w.clock = fake.NewClock(birth)
	w.clock.Advance(second)
	w.host, w.links, w.files, w.mounts = fake.NewHost("(none)"), &fake.Links{}, &fake.Files{}, &fake.Mounts{}
	w.dhcp, w.ntp = fake.NewDHCP(w.clock), fake.NewNTP(w.clock, birth)
	w.dhcp.Links = w.links
	w.provisioner = &fake.Provisioner{}
	w.ledger = newLedger()
	w.drift = w.between(-30_000, 30_000)
	w.makeNICs()
	w.makeTimeHosts()
	w.makeDisks()
	w.containers = newContainers(w)
	w.node = &node{w: w, settings: w.randomSettings()}
	if w.chance(10) {
		w.node.unable = true
	}
	return w
}

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

func (w *world) now() time.Duration { return time.Duration(w.clock.SinceBoot()) }

// fail notes the first promise that is broken; the rest follows from it.
func (w *world) fail(invariant, format string, args ...any) {
	if w.violation == nil {
		w.violation = &violation{invariant, fmt.Sprintf(format, args...), w.now()}
		w.note("VIOLATION %s: %s", invariant, w.violation.what)
	}
}

func (w *world) note(format string, args ...any) { w.trace.add(w.now(), format, args...) }

// Random choices.

func (w *world) chance(percent int) bool         { return w.rng.IntN(100) < percent }
func (w *world) between(low, high int64) int64   { return low + w.rng.Int64N(high-low+1) }
func (w *world) seconds(low, high int64) int64   { return w.between(low*second, high*second) }
func pick[T any](w *world, from ...T) (chosen T) { return from[w.rng.IntN(len(from))] }

// later plans something.
func (w *world) later(after int64, do func()) {
	w.plans = append(w.plans, plan{w.now() + time.Duration(after), do})
}

// doPlans does what is due.
func (w *world) doPlans() {
	for i := 0; i < len(w.plans); i++ {
		if p := w.plans[i]; p.at <= w.now() {
			w.plans = append(w.plans[:i], w.plans[i+1:]...)
			i = -1
			p.do()
		}
	}
}

// advance lets time pass, at the pace of a bad crystal.
func (w *world) advance(d time.Duration) {
	w.clock.Advance(int64(d))
	w.clock.Drift(int64(d) / second * w.drift)
}

// run lets the node run until a time.
func (w *world) run(end time.Duration) {
	for w.violation == nil {
		next := w.settle()
		if w.violation != nil || w.now() >= end {
			return
		}
		next = min(next, end, w.nextChaos)
		for _, due := range []func() (int64, bool){w.jobs.Due, w.podJobs.Due, w.dhcp.Due} {
			if at, ok := due(); ok {
				next = min(next, time.Duration(at))
			}
		}
		for _, p := range w.plans {
			next = min(next, p.at)
		}
		for _, other := range w.watchers {
			next = min(next, other.next)
		}
		if next > w.now() {
			w.advance(next - w.now())
		}
	}
}

// settle does all that is due now, and returns when the loop wants to go on.
func (w *world) settle() time.Duration {
	for round := 0; ; round++ {
		if round > 2000 {
			w.fail("progress", "the node does not come to rest: %s", w.node.busiest())
			return never
		}
		if w.now() >= w.nextChaos {
			w.chaos()
		}
		w.doPlans()
		w.jobs.Step()
		w.podJobs.Step()
		w.dhcp.Step()
		next := w.node.pass()
		w.dhcp.Sent, w.ntp.Asked = w.dhcp.Sent[:0], w.ntp.Asked[:0]
		w.check()
		if w.dead && w.violation == nil {
			w.reboot("power cut")
			continue
		}
		if w.violation != nil || next > w.now() && !w.due() {
			return next
		}
	}
}

// due reports whether a driver has something to do now.
func (w *world) due() bool {
	if at, ok := w.jobs.Due(); ok && time.Duration(at) <= w.now() {
		return true
	}
	if at, ok := w.podJobs.Due(); ok && time.Duration(at) <= w.now() {
		return true
	}
	at, ok := w.dhcp.Due()
	return ok && time.Duration(at) <= w.now() || w.now() >= w.nextChaos
}

func v4(a, b, c, d byte) hal.Address { return hal.Address{Bytes: [16]byte{a, b, c, d}, Len: 4} }

func v6(net, host byte) hal.Address {
	return hal.Address{Bytes: [16]byte{0: 0xfd, 3: net, 15: host}, Len: 16}
}

func prefix(a hal.Address, bits uint8) hal.Prefix { return hal.Prefix{Address: a, Bits: bits} }
