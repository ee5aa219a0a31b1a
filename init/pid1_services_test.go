package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// payloads returns the node's processes of the payload program, numbered as
// here.
func (b *bench) payloads() []process {
	var ours []process
	all := processTable("/proc")
	parents := []int{b.cmd.Process.Pid}
	for len(parents) > 0 {
		var next []int
		for _, p := range all {
			if slices.Contains(parents, p.parent) {
				next = append(next, p.pid)
				if p.name == "payload" || p.name == "exe" {
					ours = append(ours, p)
				}
			}
		}
		parents = next
	}
	return ours
}

// stubbornService checks that a service which ignores TERM is killed after its
// grace, that the API says so while the service below it ends, and that the
// shutdown goes on.
func stubbornService(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"mule", "base"}, card: `machine:
  services:
  - {id: base, command: [/bin/payload, ordered, base, /data/order, 2s]}
  - {id: mule, command: [/bin/payload, stubborn], depends_on: [base], stop_grace_secs: 1}
`})
	b.waitLine("mule: ignores TERM")
	b.must(b.client.Shutdown(context.Background()))
	b.waitService("mule", "Stopping", "asked to end")
	b.waitService("mule", "Failed", "killed: it did not end within its grace of 1 s")
	b.endsBy(syscall.SIGINT)
	if got, want := b.file("data/order"), "start base\nstop base\n"; got != want {
		t.Errorf("the service below noted %q; want %q", got, want)
	}
}

func (b *bench) file(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.root, name))
	b.must(err)
	return string(text)
}

// orderOfServices proves from what the services write that each is stopped
// when nothing that depends on it is left.
func orderOfServices(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"a", "b", "c", "d"}, card: `machine:
  services:
  - {id: d, command: [/bin/payload, ordered, d, /data/order, 100ms], depends_on: [b, c]}
  - {id: c, command: [/bin/payload, ordered, c, /data/order, 300ms], depends_on: [a]}
  - {id: b, command: [/bin/payload, ordered, b, /data/order, 100ms], depends_on: [a]}
  - {id: a, command: [/bin/payload, ordered, a, /data/order, 10ms]}
`})
	b.until("all to run", func() bool {
		text, _ := os.ReadFile(filepath.Join(b.root, "data/order")) // not there before the first has started
		return strings.Count(string(text), "start") == 4
	})
	b.must(b.client.Reboot(context.Background()))
	b.endsBy(syscall.SIGHUP)
	lines := strings.Split(strings.TrimSpace(b.file("data/order")), "\n")
	if want := []string{"stop d", "stop b", "stop c", "stop a"}; len(lines) != 8 || !slices.Equal(lines[4:], want) {
		t.Errorf("the services noted %q; want them to end with %q", lines, want)
	}
}

// orphansAreReaped tells of a service that forked twice, as daemons do: each
// run left zombies behind, until there were no process numbers left.
func orphansAreReaped(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"daemons"}, card: `machine:
  services:
  - {id: daemons, command: [/bin/payload, orphans, "200"], restart: never}
`})
	b.waitLine("daemons: orphans 200")
	b.waitService("daemons", "Finished", "exited with code 0")
	// The node's own /proc, since a zombie there is one of PID 1's.
	b.until("PID 1 to be alone", func() bool {
		table := processTable(b.inside("proc"))
		return len(table) == 1 && table[0].pid == 1 && table[0].state != "Z"
	})
}

// killedService checks that a service which is killed from outside is started
// again, with another process.
func killedService(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"nap"}, card: `machine:
  services:
  - {id: nap, command: [/bin/payload, sleep], restart: always}
`})
	b.waitService("nap", "Running", "running")
	var first process
	b.until("its process", func() bool {
		all := b.payloads()
		if len(all) == 1 {
			first = all[0]
		}
		return len(all) == 1
	})
	b.must(unix.Kill(first.pid, unix.SIGKILL))
	b.waitService("nap", "Waiting", "was ended by signal 9, perhaps for want of memory; starting again after 1 s")
	b.waitService("nap", "Running", "running")
	if again := b.payloads(); len(again) != 1 || again[0].pid == first.pid {
		t.Errorf("its processes are %+v; want one that is not %d", again, first.pid)
	}
}

// leftoversEnd checks that the worker of a service whose leader has failed does
// not stay beside the next start.
func leftoversEnd(t *testing.T, f *factory) {
	b := f.start(t, setup{services: []string{"leaver"}, card: `machine:
  services:
  - {id: leaver, command: [/bin/payload, leaver], restart: always}
`})
	b.waitService("leaver", "Waiting", "exited with code 1; starting again after 2 s")
	b.until("its workers to end", func() bool { return len(b.payloads()) == 0 })
}

// inNamespace reads a file of /proc by way of the node's network namespace.
func (b *bench) inNamespace(path string) string {
	var text []byte
	_ = b.enterNetwork(func() error {
		var err error
		text, err = os.ReadFile(path)
		return err
	})
	return strings.TrimSpace(string(text))
}
