package timesync

import (
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
)

const year = 365 * 24 * time.Hour

// TestAbsurdTime tells of a server that said a year of the next century once: no
// client certificate was valid any more, nor after a restart, since STATE had kept
// that time.
func TestAbsurdTime(t *testing.T) {
	r := newRig(t, -time.Hour)
	s := r.serve("a")[0]
	s.Offset = int64(170 * year)
	r.route()
	r.run(10 * time.Minute)
	r.expectUnset("a: its time is more than 20 years after this program was built")
	if now := r.clock.Now(); now > truth {
		t.Errorf("the clock is at %s; want it left alone", time.Unix(0, now).UTC())
	}
	s.Offset = 0
	r.run(2 * time.Minute)
	r.expectRight(time.Millisecond)
}

// TestBounds: the first and the last time that are believed.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		says, floor int64
		why         string
	}{
		{built, built, ""}, {built - 1, built, "its time is before this program was built"},
		{Ceiling(built) - 1, built, ""}, {Ceiling(built), built, "its time is more than 20 years after this program was built"},
		{truth + int64(200*year), 0, ""}, // nobody knows when it was built
	} {
		sample := hal.TimeSample{Stratum: 2, Offset: c.says - truth}
		if why := judge(sample, truth, c.floor); why != c.why {
			t.Errorf("%s, of a program of %s: %q; want %q", time.Unix(0, c.says).UTC(), time.Unix(0, c.floor).UTC(), why, c.why)
		}
	}
}

// TestFirstWordIsDoubted: a jump of years is not made at one word, one of months is:
// so long a board is off, or its build old.
func TestFirstWordIsDoubted(t *testing.T) {
	for _, c := range []struct {
		name   string
		off    time.Duration // of the clock
		within time.Duration
		asked  int
	}{
		{"months behind", -11 * 30 * 24 * time.Hour, time.Second, 1},
		{"years behind", -3 * year, 5 * time.Second, 2},
		{"in 1970, where no floor has raised it", -time.Duration(truth), time.Second, 1},
		{"years ahead", 3 * year, time.Second, 1}, // by what was kept
	} {
		r := newRig(t, 0)
		if c.off > -30*year { // the build is no newer than the clock is
			r.sync.Floor = truth - int64(4*year)
		}
		r.clock.Drift(int64(c.off))
		r.serve("a")
		r.route()
		r.run(c.within)
		r.expectRight(time.Millisecond)
		if n := len(r.ntp.Asked); n != c.asked {
			t.Errorf("%s: %d questions before the clock was set; want %d", c.name, n, c.asked)
		}
	}
}

// TestFirstWordAlone: what no second round says is not believed, and rounds that
// differ as two servers may that are both right do agree.
func TestFirstWordAlone(t *testing.T) {
	r := newRig(t, 0)
	s := r.serve("a")[0]
	s.Offset = int64(9 * year)
	r.route()
	r.run(time.Second)
	r.expectUnset("s off; asking again")
	s.Offset = 0
	r.run(5 * time.Second)
	r.expectRight(time.Millisecond)

	r = newRig(t, 0)
	s = r.serve("a")[0]
	s.Offset = int64(2 * year)
	r.route()
	r.run(time.Second)
	r.expectUnset("s off; asking again")
	s.Offset += int64(2 * time.Second)
	r.run(5 * time.Second)
	if st := r.status(); !st.Synced {
		t.Errorf("after two rounds 2 s apart the status is %+v; want the second believed", st)
	}
}

// TestAbsurdTimeIsNotKept: somebody on the node has set the clock.
func TestAbsurdTimeIsNotKept(t *testing.T) {
	r := newRig(t, 0)
	files := &fake.Files{}
	keep := &Keep{Clock: r.clock, Files: files, Jobs: r.jobs, Path: func() string { return "/clock" }, Floor: built}
	r.put(r.loop.Add(keep))
	r.serve("a")
	r.route()
	r.run(time.Minute)
	kept := func() string {
		text, err := files.Read("/clock")
		r.put(err)
		return strings.TrimSpace(string(text))
	}
	first := kept()
	// No server corrects it for as long as it takes to be kept again.
	r.ntp.FailAlways("Query", fake.ErrTimeout)
	r.clock.Drift(int64(60 * year))
	r.run(3 * time.Hour)
	if got := kept(); got != first {
		t.Errorf("STATE keeps %s; want %s, from before somebody set the clock", got, first)
	}
	r.ntp.Heal("Query")
	r.run(2 * time.Hour)
	r.expectRight(time.Millisecond)
	if got := kept(); got <= first {
		t.Errorf("STATE keeps %s; want a time after %s, as the clock is right again", got, first)
	}
}
