package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"machined/api/machinepb"
)

// cost is what machined costs itself, as the API has it.
type cost struct{ rssAnonKB, goroutines, openFiles uint64 }

func (b *bench) cost() cost {
	b.t.Helper()
	all := b.fields("MemoryStatus", "memory")
	number := func(key string) uint64 {
		n, err := strconv.ParseUint(all[key], 10, 64)
		b.must(err)
		return n
	}
	return cost{rssAnonKB: number("rss_anon_kb"), goroutines: number("goroutines"), openFiles: number("open_files")}
}

// written is how many bytes a process has written, whose number is ours.
func (b *bench) written(pid int) uint64 {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "io"))
	b.must(err)
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "wchar: "); ok {
			bytes, err := strconv.ParseUint(strings.TrimSpace(n), 10, 64)
			b.must(err)
			return bytes
		}
	}
	return 0
}

// numbered checks that each line is told of: those that arrive and those that
// are lost make all.
type numbered struct {
	next        uint64
	lost, lines atomic.Uint64
	wrong       atomic.Bool
}

func (n *numbered) record(r *machinepb.LogRecord) error {
	text, _, _ := bytes.Cut(r.GetText(), []byte(" "))
	number, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || n.lines.Load() > 0 && number != n.next {
		n.wrong.Store(true)
		return errors.New("lines are missing that are not counted")
	}
	n.next = number + 1
	n.lines.Add(1)
	return nil
}

func (n *numbered) drop(lost uint64) error {
	n.lost.Add(lost)
	n.next += lost
	return nil
}

const (
	// floodTime is how long the flood lasts at most, and floodBytes what ends it
	// sooner.
	floodTime  = 8 * time.Second
	floodBytes = 1 << 30
)

// floodCostsNothing has a service write as fast as it can: machined neither
// grows for it, nor forgets the others, nor the console.
func floodCostsNothing(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"flood", "greeter"}, card: `machine:
  services:
  - {id: flood, command: [/bin/payload, flood]}
  - {id: greeter, command: [/bin/payload, greet, /data/starts]}
`})
	b.waitLine("more lines; all that are kept are in its log.)")
	pid := 0
	b.until("the flood", func() bool {
		for _, p := range b.payloads() {
			if b.written(p.pid) > 10<<20 {
				pid = p.pid
			}
		}
		return pid != 0
	})
	ctx, cancel := context.WithCancel(context.Background())
	follower, followed := &numbered{}, make(chan error, 1)
	follow := func() { followed <- b.client.Logs(ctx, "flood", true, -1, follower.record, follower.drop) }
	before := b.cost()
	go follow()
	time.Sleep(time.Second)
	first, begun, start := b.cost(), b.written(pid), time.Now()
	calls := 0
	for time.Since(start) < floodTime && b.written(pid)-begun < floodBytes {
		b.reaches(b.client.RestartService, "greeter", "Running", "running")
		calls++
		time.Sleep(100 * time.Millisecond)
	}
	flood, last := b.written(pid)-begun, b.cost()
	t.Logf("%d MB in %s; %+v before, %+v with a follower, %+v at the end; the follower got %d lines and lost %d; %d restarts of another service",
		flood>>20, time.Since(start).Round(time.Second), before, first, last, follower.lines.Load(), follower.lost.Load(), calls)
	if flood < 100<<20 {
		t.Errorf("the flood was of %d bytes; want 100 MiB or more to say anything", flood)
	}
	if last.rssAnonKB > first.rssAnonKB*3/2+1024 {
		t.Errorf("machined has grown from %d to %d KiB", first.rssAnonKB, last.rssAnonKB)
	}
	if last.openFiles > first.openFiles+2 || last.goroutines > first.goroutines+4 {
		t.Errorf("machined has %d files and %d goroutines; want about the %d and %d of before", last.openFiles, last.goroutines, first.openFiles, first.goroutines)
	}
	cancel()
	if err := <-followed; follower.wrong.Load() || follower.lost.Load() == 0 || follower.lines.Load() == 0 {
		t.Errorf("the follower got %d lines and was told of %d lost, and ended with %v; want both, and each line in one", follower.lines.Load(), follower.lost.Load(), err)
	}
	shown, left := 0, 0
	for _, line := range b.console() {
		if strings.Contains(line, " flood: ") {
			shown++
			if strings.Contains(line, "more lines; all that are kept") {
				left++
			}
		}
	}
	if left == 0 || shown > (left+2)*(consoleLines+1) {
		t.Errorf("the console showed %d lines of the flood, %d of which said that there were more; want at most %d for each", shown, left, consoleLines)
	}
	if s := b.info("flood"); s.GetState() != "Running" || s.GetRestarts() != 0 || calls < 5 {
		t.Errorf("flood is %s after %d restarts, and another service was restarted %d times meanwhile; want it running and at least 5", s.GetState(), s.GetRestarts(), calls)
	}
	b.reaches(b.client.StopService, "flood", "Finished", "stopped: was ended by signal 15")
}
