package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// touch makes or removes a file of the node, by which a payload knows what to be.
func (b *bench) touch(name string, there bool) {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	if there {
		b.must(os.WriteFile(path, nil, 0o644))
	} else {
		b.must(os.Remove(path))
	}
}

// probedServices follows services that are asked by a command and over HTTP, and
// what those that depend on them are told. The answer over HTTP is bytes that no
// list of services can carry as they are.
func probedServices(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"db", "app", "web"}, card: `machine:
  services:
  - {id: db, command: [/bin/payload, sleep], user: "1000", probe: {exec: [/bin/payload, exists, /data/ok], period_secs: 1, threshold: 1}}
  - {id: app, command: [/bin/payload, sleep], depends_on: [db]}
  - {id: web, command: [/bin/payload, serve, "127.0.0.1:8080", /data/ill], probe: {http: "http://127.0.0.1:8080/", period_secs: 1, threshold: 2}}
`})
	b.waitService("db", "Running", "running, but not healthy yet: the probe exited with code 1")
	b.waitService("app", "Waiting", "waiting for db, which is not healthy")
	if s := b.info("app"); s.GetPid() != 0 || s.GetHealthy() {
		t.Errorf("app has process %d before db is healthy; want none", s.GetPid())
	}
	b.touch("data/ok", true)
	b.waitService("app", "Running", "running")
	if s := b.info("db"); !s.GetHealthy() || strings.Contains(s.GetMessage(), "not healthy") {
		t.Errorf("db is %s, healthy %v, when app runs; want it healthy", s.GetMessage(), s.GetHealthy())
	}
	app := b.info("app").GetPid()
	b.touch("data/ok", false)
	b.waitService("db", "Running", "running, but not healthy any more: the probe exited with code 1")
	b.waitService("app", "Running", "running; db, on which it depends, is not healthy")
	b.waitLine("db: running, but not healthy any more: ") // on a busy machine that the probe took too long
	b.touch("data/ok", true)
	b.until("app to be told that db is well", func() bool { return !strings.Contains(b.info("app").GetMessage(), "not healthy") })
	if again := b.info("app").GetPid(); again != app {
		t.Errorf("app runs as process %d; want it left alone as %d", again, app)
	}

	b.until("web to be healthy", func() bool { return b.info("web").GetHealthy() })
	b.touch("data/ill", true)
	b.waitService("web", "Running", "not healthy any more: HTTP status 599 ???[2J xx")
	if s := b.info("web"); s.GetHealthy() || len(s.GetMessage()) > 300 {
		t.Errorf("web is healthy: %v, with a message of %d bytes; want it ill, and in few words", s.GetHealthy(), len(s.GetMessage()))
	}
	b.touch("data/ill", false)
	b.until("web to be healthy again", func() bool { return b.info("web").GetHealthy() })
}

// privilegedServices asks the services themselves what the kernel lets them do.
func privilegedServices(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"user", "plain", "few"}, card: `machine:
  services:
  - id: user
    command: [/bin/payload, who]
    user: 1000:1001
    working_dir: /data
    env: {LANG: C.UTF-8, PATH: /opt}
    capabilities: [CAP_NET_BIND_SERVICE]
  - {id: few, command: [/bin/payload, who], capabilities: [CAP_KILL], no_new_privs: false}
  - {id: plain, command: [/bin/payload, who]}
`})
	mask := func(bit int) string {
		text := strconv.FormatUint(1<<bit, 16)
		return strings.Repeat("0", 16-len(text)) + text
	}
	bind, kill, none := mask(unix.CAP_NET_BIND_SERVICE), mask(unix.CAP_KILL), strings.Repeat("0", 16)
	for id, want := range map[string][]string{
		"user": {
			"dir: /data", "env: LANG=C.UTF-8", "env: PATH=/opt", "Uid: 1000 1000 1000 1000", "Gid: 1001 1001 1001 1001", "Groups:", "NoNewPrivs: 1",
			"CapEff: " + bind, "CapBnd: " + bind, "CapAmb: " + bind,
		},
		"few":   {"dir: /", "Uid: 0 0 0 0", "NoNewPrivs: 0", "CapEff: " + kill, "CapBnd: " + kill, "CapAmb: " + none},
		"plain": {"dir: /", "env: PATH=/usr/bin:/usr/sbin:/bin:/sbin", "Uid: 0 0 0 0", "NoNewPrivs: 1", "CapAmb: " + none},
	} {
		var got []string
		b.until("the word of "+id, func() bool {
			got = b.log(id, 0)
			return slices.Contains(got, "end")
		})
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s says of itself %q; want %q in it", id, got, line)
			}
		}
		for _, line := range got {
			if strings.HasPrefix(line, "env: ") && !slices.Contains(want, line) && !strings.HasPrefix(line, "env: PATH=") {
				t.Errorf("%s got %q from somewhere", id, line)
			}
		}
	}
}

// shutdownEndsAll has a service that ignores TERM, and one that has left a worker
// behind which is in no process group of its and ignores TERM, too: all end, in
// their order, and the node does not wait for the slowest.
func shutdownEndsAll(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"base", "mule", "leader"}, card: `machine:
  services:
  - {id: base, command: [/bin/payload, ordered, base, /data/order, 2s]}
  - {id: mule, command: [/bin/payload, stubborn], depends_on: [base], stop_grace_secs: 1}
  - {id: leader, command: [/bin/payload, escape], depends_on: [base]}
`})
	b.waitLine("mule: ignores TERM")
	b.waitLine("leader: has left")
	b.waitLine("leader: ignores TERM")
	if n := len(b.payloads()); n != 4 {
		t.Errorf("%d processes run; want three services and a worker", n)
	}
	_, err := b.client.Version(t.Context())
	b.must(err)
	b.must(b.client.Shutdown(t.Context()))
	if cgroupRoot() != "" {
		// Without cgroups the worker ends with the node.
		b.until("base to be the last", func() bool { return len(b.payloads()) == 1 })
		if strings.Contains(b.file("data/order"), "stop base") {
			t.Error("base had ended before the others; want it to be the last")
		}
	}
	b.endsBy(unix.SIGINT)
	if got, want := b.file("data/order"), "start base\nstop base\n"; got != want {
		t.Errorf("base noted %q; want %q", got, want)
	}
	if !b.printed("shutdown: Done.") || b.printed("going on without") {
		t.Error("the shutdown went on without something that did not end; want all ended")
	}
}
