package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/init/config"
	"machined/init/supervise"
	"machined/init/supervise/logring"
)

func TestParseUser(t *testing.T) {
	for _, c := range []struct {
		user     string
		uid, gid uint32
		ok       bool
	}{
		{"", 0, 0, true}, {"root", 0, 0, true}, {"1000", 1000, 1000, true}, {"1000:5", 1000, 5, true}, {"4294967294", 1<<32 - 2, 1<<32 - 2, true},
		{"daemon", 0, 0, false}, {"1000:daemon", 0, 0, false}, {"root:5", 0, 0, false}, {":5", 0, 0, false}, {"5:", 0, 0, false},
		{"-1", 0, 0, false}, {"4294967296", 0, 0, false}, {"1:2:3", 0, 0, false},
	} {
		uid, gid, err := parseUser(c.user)
		if uid != c.uid || gid != c.gid || (err == nil) != c.ok {
			t.Errorf("parseUser(%q) = %d, %d, %v; want %d, %d, success %v", c.user, uid, gid, err, c.uid, c.gid, c.ok)
		}
	}
}

func TestService(t *testing.T) {
	got, err := service(config.Service{
		ID: "web", Command: []string{"/bin/web", "-p", "80"}, DependsOn: []string{"db"}, Restart: config.RestartOnFailure,
		StopGrace: 3 * time.Second, NoNewPrivs: true, Critical: true, Gates: []config.Gate{config.GateNetwork}, Volumes: []string{"STATE"},
		Capabilities: new(config.CapabilitySet), Probe: &config.Probe{Kind: config.ProbeTCP, Target: "a:1", Period: 2e9, Timeout: 1e9, Threshold: 3},
		Limits: config.Limits{MemoryMax: 1 << 20, CPUMax: config.CPUMax{Quota: 5e6, Period: 1e8}, PIDsMax: 7, IOWeight: 9},
		Env:    []config.EnvVar{{Name: "B", Value: "2"}, {Name: "A", Value: "1 2"}}, User: "10:20", WorkingDir: "/srv",
	})
	want := supervise.Service{
		ID: "web", Command: []string{"/bin/web", "-p", "80"}, DependsOn: []string{"db"}, Restart: supervise.OnFailure,
		StopGrace: 3e9, Env: []string{"PATH=/usr/bin:/usr/sbin:/bin:/sbin", "B=2", "A=1 2"}, UID: 10, GID: 20, Dir: "/srv",
		NoNewPrivs: true, Critical: true, Gates: []supervise.Gate{supervise.GateNetwork}, Volumes: []string{"STATE"}, Bounded: true,
		Probe:  &supervise.Probe{Kind: supervise.ProbeTCP, Target: "a:1", Period: 2e9, Timeout: 1e9, Threshold: 3},
		Cgroup: servicesCgroup + "/web",
		Limits: hal.CgroupLimits{MemoryMax: 1 << 20, OOMGroup: true, CPUQuota: 5000, CPUPeriod: 100000, PIDsMax: 7, IOWeight: 9},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("service() = %+v, %v; want %+v", got, err, want)
	}
	got, err = service(config.Service{ID: "web", Env: []config.EnvVar{{Name: "PATH", Value: "/opt"}}})
	if want := []string{"PATH=/opt"}; err != nil || !slices.Equal(got.Env, want) {
		t.Errorf("service() with a PATH = %q, %v; want %q alone", got.Env, err, want)
	}
	if _, err := service(config.Service{ID: "web", User: "nobody"}); err == nil || !strings.HasPrefix(err.Error(), "service web is left out: ") {
		t.Errorf("service() of user nobody = %v; want an error that says it is left out", err)
	}
}

// TestOutput follows what a service prints to its ring and to the console.
func TestOutput(t *testing.T) {
	r := newRig(t)
	out, errs := r.output("web")
	if again, _ := r.output("web"); again != out || out == errs {
		t.Errorf("the descriptors are %d and %d, and %d the next time; want two that stay", out, errs, again)
	}
	pipes := r.outputs.pipes["web"].files
	fmt.Fprint(pipes[0], "one\n")
	ring := r.rings.Find("web")
	waitUntil(t, func() bool { return ring.Stats().Entries == 1 })
	fmt.Fprint(pipes[1], "two\n")
	waitUntil(t, func() bool { return ring.Stats().Entries == 2 })
	got, _, _ := ring.Read(0, 1000)
	for i := range got {
		got[i].Time = 0
	}
	if want := []logring.Entry{{Stream: logring.Stdout, Text: "one"}, {Stream: logring.Stderr, Text: "two"}}; !slices.Equal(got, want) {
		t.Errorf("the ring has %+v; want %+v", got, want)
	}
	if !r.screen.shows(r.node.log, "web: one\n") || !r.screen.shows(r.node.log, "web: two\n") {
		t.Error("the console lacks a line")
	}
	if got := r.tail("web"); got != "one | two" {
		t.Errorf("tail is %q; want both lines", got)
	}
	r.closeOutputs(func(string) bool { return false })
	if len(r.outputs.pipes) != 0 || r.rings.Find("web") == nil {
		t.Error("after its end a service has pipes, or no lines")
	}
}

// TestFloodSparesConsole: a service that floods gets few lines to the console,
// and one that tells how many were left out.
func TestFloodSparesConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		l := &limiter{print: func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }}
		for range 1000 {
			l.line([]byte("x"))
		}
		time.Sleep(2 * time.Second)
		l.line([]byte("y"))
		synctest.Wait()
		if n := len(lines); n != consoleLines+2 || lines[n-2] != fmt.Sprintf("(%d more lines; all that are kept are in its log.)", 1000-consoleLines) || lines[n-1] != "y" {
			t.Errorf("the console got %d lines, at last %q", n, lines[max(0, n-2):])
		}
	})
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited for 10 s")
		}
	}
}

func TestMemoryShares(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ total, payload, machined, runtime int64 }{
		{411844 << 10, 316296192, 26358016, 52716032}, // the Pi 3A+
		{64 * mib, 32 * mib, 8 * mib, 16 * mib}, {256 * mib, 160 * mib, 24 * mib, 48 * mib}, {1024 * mib, 768 * mib, 64 * mib, 128 * mib},
		{8192 * mib, 7936 * mib, 64 * mib, 128 * mib}, {0, 0, 0, 0},
	} {
		got := memoryShares(c.total)
		if want := (shares{payload: c.payload, each: c.payload / 4 * 3, machined: c.machined, runtime: c.runtime}); got != want {
			t.Errorf("memoryShares(%d MiB) = %+v; want %+v", c.total/mib, got, want)
		}
		if got.machined+got.runtime+got.payload > c.total {
			t.Errorf("memoryShares(%d MiB) promises more than there is", c.total/mib)
		}
	}
}

// TestProgramIsLocked: where the kernel cannot bound what services take, it
// would evict this program for them.
func TestProgramIsLocked(t *testing.T) {
	for _, missing := range [][]string{nil, {"memory.max", "memory.min"}} {
		r := newRig(t)
		r.cgroups.(*fake.Cgroups).Missing = missing
		mustDo(t, r.makeCgroups())
		if got, want := r.processes.Locked, missing != nil; got != want {
			t.Errorf("without %v the program is locked: %v; want %v", missing, got, want)
		}
	}
}
