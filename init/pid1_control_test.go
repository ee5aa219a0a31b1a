package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"machined/api/client"
	"machined/api/machinepb"
)

// info returns what the API lists of a service.
func (b *bench) info(id string) *machinepb.ServiceInfo {
	b.t.Helper()
	all, err := b.client.Services(context.Background())
	b.must(err)
	for _, s := range all {
		if s.GetId() == id {
			return s
		}
	}
	b.t.Fatalf("the node lists no service %s", id)
	return nil
}

type control func(ctx context.Context, id string, wait time.Duration) (*machinepb.ServiceInfo, error)

// reaches has a service controlled and checks what it is afterwards.
func (b *bench) reaches(do control, id, state, message string) *machinepb.ServiceInfo {
	b.t.Helper()
	info, err := do(context.Background(), id, patience)
	if err != nil || info.GetState() != state || !strings.Contains(info.GetMessage(), message) {
		b.t.Errorf("the call for %s = %v, %v; want it %s, %s", id, info, err, state, message)
	}
	if now := b.info(id); now.GetState() != state {
		b.t.Errorf("after the call %s is listed as %s; want %s", id, now.GetState(), state)
	}
	return info
}

// takesTooLong checks what a call says whose deadline passes.
func (b *bench) takesTooLong(do control, id, said string) {
	b.t.Helper()
	_, err := do(context.Background(), id, time.Second)
	if !errors.Is(err, client.ErrTimeout) || !strings.Contains(err.Error(), said) {
		b.t.Errorf("the call for %s = %v; want a time-out that says %q", id, err, said)
	}
}

// log returns the last lines of a service.
func (b *bench) log(id string, tail int32) []string {
	b.t.Helper()
	var lines []string
	err := b.client.Logs(context.Background(), id, false, tail, func(r *machinepb.LogRecord) error {
		lines = append(lines, string(r.GetText()))
		return nil
	}, func(uint64) error { return nil })
	b.must(err)
	return lines
}

// controlledServices has services started, stopped and restarted as machinectl
// does: each call returns with the state, or says what is in the way.
func controlledServices(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"db", "app", "mule"}, card: `machine:
  services:
  - {id: db, command: [/bin/payload, ordered, db, /data/order, 100ms]}
  - {id: app, command: [/bin/payload, ordered, app, /data/order, 300ms], depends_on: [db]}
  - {id: mule, command: [/bin/payload, stubborn], stop_grace_secs: 3}
`})
	b.until("both to run", func() bool {
		text, _ := os.ReadFile(filepath.Join(b.root, "data/order"))
		return strings.Count(string(text), "start") == 2
	})
	b.waitLine("mule: ignores TERM")
	before := b.info("mule").GetPid()
	b.takesTooLong(b.client.StopService, "mule", "service mule is still Stopping: asked to end: by hand")
	// It is not there yet when it is started: it ends first.
	if again := b.reaches(b.client.StartService, "mule", "Running", "running"); again.GetPid() == before || again.GetRestarts() != 1 {
		t.Errorf("mule runs as %d after %d restarts; want another than %d, and 1", again.GetPid(), again.GetRestarts(), before)
	}
	b.reaches(b.client.StopService, "db", "Finished", "; with it: app")
	if got, want := b.file("data/order"), "stop app\nstop db\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the services noted %q; want %q at the end", got, want)
	}
	b.takesTooLong(b.client.StartService, "app", "service app is still Waiting: waiting for db, which was stopped by hand")
	// A call that has given up does not take back what it asked for.
	b.reaches(b.client.StartService, "db", "Running", "running")
	b.waitService("app", "Running", "running")
	pid := b.info("app").GetPid()
	b.reaches(b.client.RestartService, "app", "Running", "running")
	if again := b.info("app").GetPid(); again == pid {
		t.Errorf("app still runs as process %d after its restart", pid)
	}
	b.reaches(b.client.StopService, "app", "Finished", "stopped")
	b.reaches(b.client.RestartService, "db", "Running", "running")
	if s := b.info("app"); s.GetState() != "Finished" {
		t.Errorf("app was stopped by hand and is %s, %s; want it to stay so", s.GetState(), s.GetMessage())
	}
	_, err := b.client.StopService(context.Background(), "api", patience)
	if !errors.Is(err, client.ErrService) || !strings.Contains(err.Error(), "it is a part of machined") {
		t.Errorf("stop of the API = %v; want %v", err, client.ErrService)
	}
	_, err = b.client.StopService(context.Background(), "nobody", patience)
	if !errors.Is(err, client.ErrUnknownService) || !strings.Contains(err.Error(), "db, app, mule") {
		t.Errorf("stop of nobody = %v; want %v and the names", err, client.ErrUnknownService)
	}
}

// logsOutliveRestarts reads a service's log over its restart, from the end and
// as it comes.
func logsOutliveRestarts(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"greeter"}, card: `machine:
  services:
  - {id: greeter, command: [/bin/payload, greet, /data/starts]}
`})
	b.waitLine("greeter: hello 1")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	followed := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- b.client.Logs(ctx, "greeter", true, 0, func(r *machinepb.LogRecord) error {
			followed <- r.GetStream() + " " + string(r.GetText())
			return nil
		}, func(uint64) error { return errors.New("lines are lost") })
	}()
	for n := 2; n <= 3; n++ {
		b.reaches(b.client.RestartService, "greeter", "Running", "running")
		b.waitLine(fmt.Sprint("greeter: hello ", n))
	}
	var got []string
	for range 6 {
		select {
		case line := <-followed:
			got = append(got, line)
		case err := <-ended:
			t.Fatalf("the log ended after %q: %v", got, err)
		case <-time.After(patience):
			t.Fatalf("followed %q; want six lines", got)
		}
	}
	// The two streams are two pipes: between them there is no order.
	slices.Sort(got)
	want := []string{"stderr listening", "stderr listening", "stderr listening", "stdout hello 1", "stdout hello 2", "stdout hello 3"}
	if !slices.Equal(got, want) {
		t.Errorf("followed %q; want %q", got, want)
	}
	if all := b.log("greeter", 0); len(all) != 6 || !strings.HasPrefix(all[0], "hello 1") && all[0] != "listening" {
		t.Errorf("the log is %q; want the lines of three starts", all)
	}
	if tail := b.log("greeter", 2); len(tail) != 2 || !slices.Contains(tail, "hello 3") {
		t.Errorf("the last lines are %q; want those of the third start", tail)
	}
	if none := b.log("greeter", -1); len(none) != 0 {
		t.Errorf("a tail of none is %q", none)
	}
	err := b.client.Logs(context.Background(), "nobody", false, 0, nil, nil)
	if !errors.Is(err, client.ErrUnknownService) {
		t.Errorf("the log of nobody = %v; want %v", err, client.ErrUnknownService)
	}
	if own := strings.Join(b.log("machined", 0), "\n"); !strings.Contains(own, "boot: Done: machined") || strings.Contains(own, "hello") {
		t.Errorf("the node's own log is %q; want its lines alone", own)
	}
}

// crashLoop checks what the API says of a service that fails over and over, in
// words that are no valid UTF-8.
func crashLoop(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"bad"}, card: `machine:
  services:
  - {id: bad, command: [/bin/payload, crash, "3"]}
`})
	b.waitService("bad", "Waiting", "exited with code 3; starting again after 4 s, having failed 3 times in a row")
	b.until("its last lines", func() bool { return len(b.info("bad").GetLastOutput()) > 0 })
	s := b.info("bad")
	if s.GetRestarts() < 2 || s.GetLastExit() != "exited with code 3" || s.GetHealthy() {
		t.Errorf("bad has %d restarts, last exit %q, healthy %v; want two or more, code 3, and not", s.GetRestarts(), s.GetLastExit(), s.GetHealthy())
	}
	if out := s.GetLastOutput(); !slices.Contains(out, "\x1b[31mpanic: no ? database") {
		t.Errorf("its last lines are %q; want what it said before it failed", out)
	}
	if in := b.fields("ServiceStatus", "bad")["failures_in_row"]; in < "3" {
		t.Errorf("it has failed %s times in a row; want 3 or more", in)
	}
	var states []string
	for i, e := range s.GetEvents() {
		states = append(states, e.GetState())
		if i > 0 && e.GetTimeUnixNanos() < s.GetEvents()[i-1].GetTimeUnixNanos() {
			t.Error("its events are not in their order")
		}
	}
	if len(states) > 64 || !strings.Contains(strings.Join(states, " "), "Starting Running Waiting Starting Running Waiting") {
		t.Errorf("its events are %q; want at most 64, of one start after the other", states)
	}
	b.reaches(b.client.StopService, "bad", "Finished", "stopped while it was not running")
}
