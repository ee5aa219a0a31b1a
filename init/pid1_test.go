package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"machined/api/pki"
	"machined/tools/testenv"
)

// TestPID1 runs the program itself as PID 1, in namespaces of its own, and
// reaches it as a laptop would.
func TestPID1(t *testing.T) {
	testenv.NeedRoot(t)
	f := newFactory(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *factory)
	}{
		{"TERM", endingBy(func(b *bench) { b.signal(syscall.SIGTERM) }, "terminated", syscall.SIGHUP)},
		{"Ctrl-Alt-Del", endingBy(func(b *bench) { b.signal(syscall.SIGINT) }, "interrupt", syscall.SIGHUP)},
		{"power failure", endingBy(func(b *bench) { b.signal(syscall.SIGPWR) }, "power failure", syscall.SIGINT)},
		{"Reboot", endingBy(func(b *bench) { b.must(b.client.Reboot(context.Background())) }, "laptop", syscall.SIGHUP)},
		{"Shutdown", endingBy(func(b *bench) { b.must(b.client.Shutdown(context.Background())) }, "laptop", syscall.SIGINT)},
		{"stray signals", straySignals}, {"emergency", emergencyRestarts},
		{"bad sysctls", badSysctls}, {"bad configs", badConfigs}, {"partial PKI", partialPKI},
		{"absent binary", absentBinary}, {"stubborn service", stubbornService}, {"order", orderOfServices},
		{"orphans", orphansAreReaped}, {"killed service", killedService}, {"leftovers", leftoversEnd},
		{"flood", floodCostsNothing}, {"control", controlledServices}, {"logs", logsOutliveRestarts}, {"crash loop", crashLoop},
		{"probes", probedServices}, {"privileges", privilegedServices}, {"sinks", logsReachSinks}, {"end of all", shutdownEndsAll},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, f)
		})
	}
}

// endingBy returns a test in which ask, by whom, ends PID 1 in order.
func endingBy(ask func(*bench), by string, want syscall.Signal) func(*testing.T, *factory) {
	return func(t *testing.T, f *factory) {
		b := f.start(t, setup{card: "machine: {hostname: kiosk}\n"})
		ask(b)
		b.endsBy(want)
		for _, line := range []string{"api: Listening on port 50000 as kiosk.", "shutdown: Going down, asked by " + by + ".", "shutdown: Done."} {
			if !b.printed(line) {
				t.Errorf("the console lacks %q", line)
			}
		}
	}
}

// straySignals tells of a PID 1 that "kill -HUP 1" ended, and with it the
// kernel: the Go runtime ends a program by the signals that nobody asked for.
func straySignals(t *testing.T, f *factory) {
	b := f.start(t, setup{})
	for _, s := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
		syscall.SIGSEGV, syscall.SIGSTKFLT, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGSYS,
	} {
		b.signal(s)
		b.until(s.String()+" to be passed over", func() bool { b.alive(); return b.printed("signals: Somebody sent " + signalName(s)) })
	}
	for _, s := range []syscall.Signal{
		syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG,
		syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGWINCH, syscall.SIGIO, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	} {
		b.signal(s)
	}
	time.Sleep(200 * time.Millisecond)
	b.alive()
	if _, err := b.client.Version(context.Background()); err != nil {
		t.Errorf("Version after stray signals = %v; want success", err)
	}
}

func emergencyRestarts(t *testing.T, f *factory) {
	b := f.start(t, setup{env: "MACHINED_WATCHDOG_SECS=perhaps", notReady: func(*testing.T, *bench) {}})
	b.waitLine(`emergency: read MACHINED_WATCHDOG_SECS="perhaps" from stage 1`)
	b.endsBy(syscall.SIGHUP)
	if !b.printed("emergency: Restarting in 10s.") {
		t.Error("the console does not say when it restarts")
	}
}

func badSysctls(t *testing.T, f *factory) {
	b := f.start(t, setup{card: `machine:
  sysctls:
  - {key: net.ipv4.no_such_key, value: "1"}
  - {key: net.ipv4.ip_forward, value: nonsense}
  - {key: net.ipv4.ip_default_ttl, value: "42"}
`})
	b.waitLine(`sysctls: set sysctl net.ipv4.no_such_key to "1": not found.`)
	b.waitLine(`sysctls: set sysctl net.ipv4.ip_forward to "nonsense": invalid argument.`)
	b.until("the good sysctl to be set", func() bool {
		return b.inNamespace("/proc/sys/net/ipv4/ip_default_ttl") == "42"
	})
	if state := b.fields("ServiceStatus", "api")["state"]; state != "Running" {
		t.Errorf("the API's service is %q; want it Running", state)
	}
}

func badConfigs(t *testing.T, f *factory) {
	for _, c := range []struct{ name, card, want string }{
		{"a cycle of services", `machine:
  services:
  - {id: a, command: [/bin/payload, sleep], depends_on: [b]}
  - {id: b, command: [/bin/payload, sleep], depends_on: [a]}
`, "/boot/machined/config.yaml:4:58: machine.services[1].depends_on[0]: dependency cycle a -> b -> a"},
		{"an unknown field", "machine:\n  hostname: a\n  hotsname: b\n", "/boot/machined/config.yaml:3:3: "},
		{"no YAML", "machine: [\n", "/boot/machined/config.yaml:2:1: YAML syntax"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := f.start(t, setup{card: c.card, image: "machine: {hostname: from-image}\n"})
			got := b.fields("MachineConfig", "machine-config")
			if got["source"] != imageConfig || !strings.Contains(got["bytes"], "from-image") {
				t.Errorf("MachineConfig is %q from %q; want that of %s", got["bytes"], got["source"], imageConfig)
			}
			file, _, _ := strings.Cut(c.want, ":")
			for _, want := range []string{"config source " + file, c.want} {
				if !strings.Contains(got["rejected"], want) || !b.printed(want) {
					t.Errorf("rejected is %q; want %q in it and on the console", got["rejected"], want)
				}
			}
		})
	}
}

// partialPKI checks that a node with half of its keys neither makes new ones,
// which would lock its owner out, nor ends.
func partialPKI(t *testing.T, f *factory) {
	b := f.start(t, setup{
		prepare: func(t *testing.T, b *bench) {
			b.must(os.Remove(filepath.Join(b.root, cardPKI, pki.NodeKeyFile)))
			// As with STATE: there is a place to keep new keys in.
			b.must(os.WriteFile(filepath.Join(b.root, stateMarker), nil, 0o600))
		},
		notReady: func(_ *testing.T, b *bench) { b.waitLine("boot: Done: machined") },
	})
	b.waitLine("lacks node.key")
	b.waitLine("api: the API stays off: the node has no identity.")
	for _, dir := range []string{statePKI, cardBundle, bundleMark} {
		if _, err := os.Stat(filepath.Join(b.root, dir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat(%s) = %v; want it not made", dir, err)
		}
	}
	if conn, err := b.dial(); err == nil {
		conn.Close()
		t.Error("something listens on port 50000")
	}
	b.alive()
	b.signal(syscall.SIGTERM)
	b.endsBy(syscall.SIGHUP)
}

// absentBinary checks what the API says of a service that cannot start, for
// three waits between tries.
func absentBinary(t *testing.T, f *factory) {
	b := f.start(t, setup{
		services: []string{"ghost"},
		card:     "machine:\n  services:\n  - {id: ghost, command: [/bin/absent], restart: always}\n",
	})
	var states, waits []string
	b.until("three failures", func() bool {
		s := b.fields("ServiceStatus", "ghost")
		if state := s["state"]; state != "" && !slices.Contains(states, state) {
			states = append(states, state)
		}
		if s["state"] == "Starting" {
			states = slices.DeleteFunc(states, func(s string) bool { return s == "Starting" })
		}
		_, wait, again := strings.Cut(s["message"], "no such file or directory; starting again after ")
		wait, _, _ = strings.Cut(wait, ",")
		if again && !slices.Contains(waits, wait) {
			waits = append(waits, wait)
		}
		return len(waits) == 3
	})
	if want := []string{"Waiting"}; !slices.Equal(states, want) {
		t.Errorf("the service was %q; want %q and never Running", states, want)
	}
	// The first wait may be over before the API is asked.
	if all := "1 s 2 s 4 s 8 s"; !strings.Contains(all, strings.Join(waits, " ")) {
		t.Errorf("it was started again after %q; want a part of %q", waits, all)
	}
}
