package conformance

import (
	"strings"

	"machined/hal"
	"machined/hal/fake"
)

func clockCases() []Case {
	return []Case{
		{"clock: setting it leaves the time since boot alone", clockSet},
		{"watchdog: it fires once feeding stops, and for good", watchdogFires},
		{"faults: they fail the calls that were named, and no others", faults},
	}
}

func hostCases() []Case {
	return []Case{
		{"host: a refused name or value changes nothing", hostRefuses},
	}
}

func powerCases() []Case {
	return []Case{
		{"power: the first ending is the one that counts", powerEnds},
	}
}

func clockSet(t T) {
	clock := fake.NewClock(y2026)
	clock.Advance(3 * second)
	sameNumber(t, "Now", clock.Now(), y2026+3*second)
	expect(t, "Set", clock.Set(y2026-second), nil)
	sameNumber(t, "Now after Set", clock.Now(), y2026-second)
	sameNumber(t, "SinceBoot after Set", clock.SinceBoot(), 3*second)
	expect(t, "Set before 1970", clock.Set(-1), hal.ErrInvalid)
	sameNumber(t, "Now after a refused Set", clock.Now(), y2026-second)
}

func watchdogFires(t T) {
	clock := fake.NewClock(y2026)
	dog := fake.NewWatchdog(clock)
	check(t, dog.Feed() != nil, "feeding before Start is an error")
	dog.Max = 15
	got, err := dog.Start(60)
	expect(t, "Start", err, nil)
	sameNumber(t, "Start(60) on hardware with 15 s", got, 15)
	for range 10 {
		clock.Advance(14 * second)
		expect(t, "Feed in time", dog.Feed(), nil)
	}
	check(t, !dog.Fired(), "it does not fire while it is fed")
	clock.Advance(15 * second)
	_ = dog.Feed()
	check(t, dog.Fired(), "it fires after 15 s")
	_ = dog.Disarm()
	check(t, dog.Fired(), "nothing takes a reset back")

	dog = fake.NewWatchdog(clock)
	dog.Absent = true
	_, err = dog.Start(15)
	expect(t, "Start without a watchdog", err, hal.ErrNoDevice)
}

func faults(t T) {
	clock := fake.NewClock(y2026)
	clock.Fail("Set", 2, hal.ErrNoDevice)
	for _, want := range []error{nil, hal.ErrNoDevice, nil} {
		expect(t, "Set", clock.Set(y2026), want)
	}
	clock.FailAlways("Set", hal.ErrInvalid)
	for range 3 {
		expect(t, "Set that always fails", clock.Set(y2026), hal.ErrInvalid)
	}
	clock.Heal("Set")
	expect(t, "Set after Heal", clock.Set(y2026), nil)
}

func hostRefuses(t T) {
	h := fake.NewHost("machined")
	expect(t, "SetHostname of 64 characters", h.SetHostname(strings.Repeat("a", 64)), nil)
	expect(t, "SetHostname", h.SetHostname("kiosk-7"), nil)
	expect(t, "SetHostname of 65 characters", h.SetHostname(strings.Repeat("a", 65)), hal.ErrInvalid)
	name, _ := h.Hostname()
	sameText(t, "Hostname", name, "kiosk-7")

	h.AddSysctl("net.ipv4.ip_forward", "0", func(v string) bool { return v != "0" && v != "1" })
	expect(t, "SetSysctl", h.SetSysctl("net/ipv4/ip_forward", "1"), nil)
	expect(t, "SetSysctl of a bad value", h.SetSysctl("net.ipv4.ip_forward", "yes"), hal.ErrInvalid)
	value, err := h.Sysctl("net.ipv4.ip_forward")
	expect(t, "Sysctl", err, nil)
	sameText(t, "Sysctl", value, "1")
	expect(t, "SetSysctl of an unknown key", h.SetSysctl("net.no_such", "1"), hal.ErrNotFound)
}

func powerEnds(t T) {
	p := &fake.Power{}
	expect(t, "CatchCtrlAltDel", p.CatchCtrlAltDel(), nil)
	check(t, p.CtrlAltDelCaught && p.Ending == fake.Alive, "a caught Ctrl-Alt-Del ends nothing")
	p.Fail("Restart", 1, hal.ErrInvalid)
	expect(t, "Restart that fails", p.Restart("0 tryboot"), hal.ErrInvalid)
	check(t, p.Ending == fake.Alive, "a restart that failed ends nothing")
	expect(t, "Restart", p.Restart("0 tryboot"), fake.ErrEnded)
	expect(t, "PowerOff", p.PowerOff(), fake.ErrEnded)
	check(t, p.Ending == fake.Restarted, "a machine that was restarted is not switched off")
	sameText(t, "the argument", p.Arg, "0 tryboot")
}
