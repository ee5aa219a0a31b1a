package replay

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"machined/tools/crashtest/blocklog"
	"machined/tools/crashtest/scenario"
)

const volumeBytes = 8 * sectorBytes

// memory is a volume of a few sectors.
type memory []byte

func (m memory) Sector(number int64) []byte {
	return m[number*sectorBytes : (number+1)*sectorBytes]
}

// String has a letter a sector.
func (m memory) String() string {
	text := ""
	for at := 0; at < len(m); at += sectorBytes {
		text += string(m[at])
	}
	return text
}

func blank() memory { return bytes.Repeat([]byte("-"), volumeBytes) }

// write writes a sector for each letter.
func write(sector int64, letters string) blocklog.Entry {
	e := blocklog.Entry{Sector: scenario.BootOffset/sectorBytes + sector}
	for _, l := range []byte(letters) {
		e.Data = append(e.Data, bytes.Repeat([]byte{l}, sectorBytes)...)
	}
	return e
}

func note(t *testing.T, m scenario.Moment) blocklog.Entry {
	t.Helper()
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return blocklog.Entry{Sector: (scenario.BootOffset + volumeBytes) / sectorBytes, Data: data}
}

func flush() blocklog.Entry { return blocklog.Entry{Flush: true} }

func events(t *testing.T, record ...blocklog.Entry) []Event {
	t.Helper()
	e, err := Events(record, volumeBytes)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// outcomes returns the images of all cuts, sorted.
func outcomes(t *testing.T, image memory, record ...blocklog.Entry) []string {
	t.Helper()
	seen := map[string]bool{}
	r := Replay{Events: events(t, record...), Image: image, Subsets: 40}
	err := r.Each(func() error { return nil }, func(c Cut, in In) error {
		return in(func() error {
			seen[image.String()] = true
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(seen))
}

func TestEach(t *testing.T) {
	begin := note(t, scenario.Moment{Judged: true})
	for _, c := range []struct {
		name   string
		record []blocklog.Entry
		want   []string
	}{
		{"two writes, in any order", []blocklog.Entry{begin, write(0, "a"), write(4, "b")}, []string{"--------", "----b---", "a-------", "a---b---"}},
		{"a flush keeps the order", []blocklog.Entry{begin, write(0, "a"), flush(), write(4, "b")}, []string{"--------", "a-------", "a---b---"}},
		{"a write is torn", []blocklog.Entry{begin, write(1, "ab")}, []string{"--------", "--b-----", "-a------", "-ab-----"}},
		{"a later write to the same place is lost", []blocklog.Entry{begin, write(0, "a"), write(0, "b")}, []string{"--------", "a-------", "b-------"}},
		{"what only prepares is not judged", []blocklog.Entry{note(t, scenario.Moment{}), write(0, "a"), flush(), begin, write(1, "b")}, []string{"a-------", "ab------"}},
		{"a write through is a flush", []blocklog.Entry{begin, {Sector: write(0, "a").Sector, Data: write(0, "a").Data, Durable: true}, write(1, "b")}, []string{"--------", "a-------", "ab------"}},
	} {
		if got := outcomes(t, blank(), c.record...); !slices.Equal(got, c.want) {
			t.Errorf("%s: the cuts leave %q; want %q", c.name, got, c.want)
		}
	}
}

// TestKeys checks that images are known by their keys, and that the replay
// leaves the image as the last flush did.
func TestKeys(t *testing.T) {
	image, keys := blank(), map[[16]byte]string{}
	r := Replay{Image: image, Subsets: 20, Events: events(t, note(t, scenario.Moment{Judged: true}),
		write(0, "abc"), write(2, "d"), flush(), write(0, "e"), write(0, "a"), flush(), write(0, "z"))}
	images := map[string]bool{}
	err := r.Each(func() error { return nil }, func(c Cut, in In) error {
		return in(func() error {
			if before, known := keys[c.Key]; known && before != image.String() {
				t.Errorf("the key of %s is that of %s, too", image, before)
			}
			keys[c.Key], images[image.String()] = image.String(), true
			return nil
		})
	})
	if err != nil || len(images) != len(keys) {
		t.Errorf("%d images have %d keys, %v; want one each", len(images), len(keys), err)
	}
	if want := "abd-----"; image.String() != want {
		t.Errorf("the image is left as %s; want %s", image, want)
	}
}

func TestAllowed(t *testing.T) {
	r := Replay{Image: blank(), Events: events(t,
		note(t, scenario.Moment{After: "1", Boots: "A", Judged: true}), write(0, "a"),
		note(t, scenario.Moment{After: "2", Boots: "B", Flagged: "A", Judged: true}),
		note(t, scenario.Moment{After: "3", Boots: "B", Fallback: "A", Judged: true}), write(0, "b"),
		note(t, scenario.Moment{After: "4", Boots: "B", Judged: true}), write(0, "c"))}
	got := map[int][]string{}
	err := r.Each(func() error { return nil }, func(c Cut, _ In) error {
		got[c.Position] = append([]string{c.After, c.Flagged}, c.Allowed...)
		return nil
	})
	want := map[int][]string{
		1: {"1", "", "A"}, 2: {"1", "", "A", "B"}, 3: {"2", "A", "B"}, 4: {"3", "", "B"},
		5: {"3", "", "B", "A"}, 6: {"4", "", "B"}, 7: {"4", "", "B"},
	}
	if err != nil || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("allowed are %v, %v; want %v", got, err, want)
	}
}

func TestEachEnds(t *testing.T) {
	failed := errors.New("failed")
	fails, works := func() error { return failed }, func() error { return nil }
	for name, r := range map[string]struct{ before, do func() error }{"before": {fails, works}, "judge": {works, fails}} {
		replay := Replay{Image: blank(), Events: events(t, note(t, scenario.Moment{Judged: true}), write(0, "a"))}
		if err := replay.Each(r.before, func(_ Cut, in In) error { return in(r.do) }); !errors.Is(err, failed) {
			t.Errorf("%s fails: Each = %v; want its error", name, err)
		}
	}
}

func TestEventsOutside(t *testing.T) {
	for name, e := range map[string]blocklog.Entry{
		"the partition table": {Data: make([]byte, sectorBytes)},
		"over the end":        write(7, "ab"),
		"not a note":          {Sector: (scenario.BootOffset + volumeBytes) / sectorBytes, Data: make([]byte, sectorBytes)},
	} {
		if got, err := Events([]blocklog.Entry{e}, volumeBytes); err == nil {
			t.Errorf("%s: Events = %v; want an error", name, got)
		}
	}
}

func TestSeed(t *testing.T) {
	if Seed(1, "a") == Seed(1, "b") || Seed(1, "a") == Seed(2, "a") {
		t.Error("two names or two seeds have the same seed")
	}
}
