package conformance

import (
	"slices"

	"machined/hal"
	"machined/hal/fake"
)

const sigTerm, sigKill = 15, 9

func processCases() []Case {
	return []Case{
		{"processes: an end is told once, in the order of time", processEnds},
		{"processes: TERM can be ignored and KILL cannot", processSignals},
	}
}

func processEnds(t T) {
	clock := fake.NewClock(y2026)
	p := fake.NewProcesses(clock)
	p.AddProgram("/bin/slow", fake.Program{Lifetime: 2 * second, Code: 42})
	p.AddProgram("/bin/fast", fake.Program{Lifetime: second})
	var ended []hal.ExitStatus
	note := func(s hal.ExitStatus) { ended = append(ended, s) }
	slow, err := p.Start(hal.ProcessSpec{Argv: []string{"/bin/slow"}}, note)
	expect(t, "Start", err, nil)
	fast, err := p.Start(hal.ProcessSpec{Argv: []string{"/bin/fast"}}, note)
	expect(t, "Start", err, nil)
	_, err = p.Start(hal.ProcessSpec{Argv: []string{"/bin/absent"}}, note)
	expect(t, "Start of nothing", err, fake.ErrNoProgram)

	p.Step()
	sameNumber(t, "the number of ends at the start", len(ended), 0)
	for range 3 {
		clock.Advance(second)
		p.Step()
	}
	check(t, slices.Equal(ended, []hal.ExitStatus{{PID: fast}, {PID: slow, Code: 42}}), "the faster ends first, each once")
	expect(t, "Signal of one that has ended", p.Signal(fast, sigTerm), hal.ErrNotFound)
	sameNumber(t, "the number of those that run", len(p.Running()), 0)
}

func processSignals(t T) {
	p := fake.NewProcesses(fake.NewClock(y2026))
	p.AddProgram("/bin/stubborn", fake.Program{IgnoreTerm: true})
	var ended []hal.ExitStatus
	pid, err := p.Start(hal.ProcessSpec{Argv: []string{"/bin/stubborn"}}, func(s hal.ExitStatus) { ended = append(ended, s) })
	expect(t, "Start", err, nil)
	expect(t, "Signal(TERM)", p.Signal(pid, sigTerm), nil)
	p.Step()
	sameNumber(t, "the number of ends after TERM", len(ended), 0)
	expect(t, "Signal(KILL)", p.Signal(pid, sigKill), nil)
	p.Step()
	check(t, slices.Equal(ended, []hal.ExitStatus{{PID: pid, Signal: sigKill}}), "KILL ends it")
	for _, group := range []int{1, 0, -1} {
		expect(t, "Signal of a group that is not ours", p.Signal(group, sigKill), hal.ErrInvalid)
	}
}
