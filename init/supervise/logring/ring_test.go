package logring

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

func texts(entries []Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Text)
	}
	return out
}

func TestReadersHaveTheirOwnPlace(t *testing.T) {
	r := New(0)
	r.Append(1, Stdout, []byte("a"))
	r.Append(2, Stderr, []byte("b"))
	r.Append(3, Stdout, nil)
	first, c, lost := r.Read(0, 2*(header+1))
	if want := []Entry{{1, Stdout, "a"}, {2, Stderr, "b"}}; !slices.Equal(first, want) || lost != 0 {
		t.Errorf("Read = %v, %d lost; want %v, 0", first, lost, want)
	}
	all, _, _ := r.Read(0, 1000)
	if got := texts(all); !slices.Equal(got, []string{"a", "b", ""}) {
		t.Errorf("another reader got %q; want all", got)
	}
	rest, c, _ := r.Read(c, 1000)
	if got := texts(rest); !slices.Equal(got, []string{""}) {
		t.Errorf("the rest is %q; want one empty line", got)
	}
	if all := r.Tail(-1); all != 0 || r.Tail(0) != 3 || r.Tail(99) != 0 {
		t.Errorf("Tail(-1) = %d, Tail(0) = %d, Tail(99) = %d; want 0, 3, 0", all, r.Tail(0), r.Tail(99))
	}
	if again, same, _ := r.Read(c, 1000); len(again) != 0 || same != c {
		t.Errorf("Read at the end = %v; want nothing", again)
	}
	last, _, _ := r.Read(r.Tail(2), 1000)
	if got := texts(last); !slices.Equal(got, []string{"b", ""}) {
		t.Errorf("the last two are %q; want b and the empty one", got)
	}
}

// TestMatchesModel compares a ring of random lines and readers with a list.
func TestMatchesModel(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		size := MinBytes + random.IntN(5000)
		r := New(size)
		var model []Entry
		var c uint64
		var read, lost uint64
		for i := range 400 {
			switch random.IntN(8) {
			case 0:
				entries, next, l := r.Read(c, random.IntN(5000))
				read, lost, c = read+uint64(len(entries)), lost+l, next
				for n, e := range entries {
					if want := model[int(read+lost)-len(entries)+n]; e != want {
						t.Fatalf("seed %d: read %+v; want %+v", seed, e, want)
					}
				}
			case 1:
				r.resize(MinBytes + random.IntN(5000))
			default:
				e := Entry{Time: int64(i), Stream: Stream(random.IntN(2)), Text: strings.Repeat(fmt.Sprint(i%10), random.IntN(1000))}
				model = append(model, e)
				r.Append(e.Time, e.Stream, []byte(e.Text))
			}
		}
		rest, _, l := r.Read(c, 1<<20)
		if got := read + lost + l + uint64(len(rest)); got != uint64(len(model)) {
			t.Fatalf("seed %d: %d entries were read or called lost; want %d", seed, got, len(model))
		}
		if s := r.Stats(); s.Entries != uint64(len(model)) || s.Dropped > s.Entries {
			t.Fatalf("seed %d: stats %+v of %d entries", seed, s, len(model))
		}
	}
}

func TestMovedWakesReaders(t *testing.T) {
	r := New(0)
	var all sync.WaitGroup
	for range 10 {
		moved := r.Moved()
		all.Go(func() { <-moved })
	}
	r.Append(0, Stdout, []byte("x"))
	all.Wait()
	select {
	case <-r.Moved():
		t.Error("Moved is closed though nothing has come")
	default:
	}
}

func TestSetIsBounded(t *testing.T) {
	s := NewSet(256 << 10)
	for i := range 40 {
		s.Ring(fmt.Sprint(i), 0).Append(0, Stdout, []byte("kept"))
	}
	sum := 0
	for _, id := range s.IDs() {
		sum += s.Find(id).Stats().Bytes
		if e, _, _ := s.Find(id).Read(0, 1); len(e) != 1 {
			t.Errorf("ring %s lost its line when it shrank", id)
		}
	}
	if sum > 256<<10 {
		t.Errorf("40 rings have %d bytes; want at most %d", sum, 256<<10)
	}
	s.Trim(3, func(id string) bool { return len(id) == 2 })
	if ids := s.IDs(); len(ids) != 33 || !slices.Equal(ids[:3], []string{"7", "8", "9"}) {
		t.Errorf("of ten services that are gone, %q are kept; want the last three", ids)
	}
	if a, b := s.Ring("big", 128<<10).Stats().Bytes, s.Ring("11", 0).Stats().Bytes; a < b*15/10 {
		t.Errorf("a ring of 128 KiB got %d bytes where one of 64 KiB has %d", a, b)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil}, {"one", []string{"one"}}, {"one\n", []string{"one"}}, {"one\ntwo\r\n\nend", []string{"one", "two", "", "end"}},
		{long + "yz\n", []string{long, "yz"}}, {long + "\nnext\n", []string{long, "next"}}, {"\n\n", []string{"", ""}}, {long + long + "\n", []string{long, long}},
	} {
		for _, from := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
			var got []string
			if err := Lines(from, func(text []byte) { got = append(got, string(text)) }); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("Lines(%.20q) = %.60q, %v; want %.60q", c.in, got, err, c.want)
			}
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	r, line := New(DefaultBytes), bytes.Repeat([]byte("x"), 100)
	if n := testing.AllocsPerRun(10000, func() { r.Append(1, Stdout, line) }); n != 0 {
		t.Errorf("%v allocations an entry; want 0", n)
	}
}

// TestFlood pushes hundreds of megabytes through a pipe: the memory stays what
// it was, and what was overwritten is counted.
func TestFlood(t *testing.T) {
	const chunks = 8000
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	chunk := bytes.Repeat([]byte(strings.Repeat("y", 99)+"\n"), 320) // 32,000 bytes, 320 lines
	go func() {
		for range chunks {
			if _, err := write.Write(chunk); err != nil {
				break
			}
		}
		write.Close()
	}()
	r := New(DefaultBytes)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := Lines(read, func(text []byte) { r.Append(1, Stdout, text) }); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	s := r.Stats()
	if want := uint64(chunks * 320); s.Entries != want || s.Dropped < want-DefaultBytes/100 || s.Bytes != DefaultBytes {
		t.Errorf("after %d lines the ring has %+v", want, s)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<10 {
		t.Errorf("%d bytes were allocated for %d MB of output; want none but the buffer", grown, chunks*32/1000)
	}
}
