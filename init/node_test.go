package main

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"machined/api"
	"machined/api/apitest"
	"machined/api/client"
	"machined/api/pki"
	"machined/hal"
	"machined/hal/fake"
	"machined/init/config"
	"machined/init/upgrade"
	"machined/reconcile/resource"
)

// inherit gives the node a listening socket on a port of its own, as an
// earlier start would, and returns its address.
func (r *rig) inherit(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mustDo(t, err)
	defer l.Close()
	r.listener = l
	r.boot.ListenerFD, err = r.keepListener()
	mustDo(t, err)
	return l.Addr().String()
}

// prompt are processes that end as soon as they are signalled.
type prompt struct{ *fake.Processes }

func (p prompt) Signal(pid, signal int) error {
	defer p.Step()
	return p.Processes.Signal(pid, signal)
}

// TestWholeNode boots a node on simulated drivers, reaches it over the network
// and ends it.
func TestWholeNode(t *testing.T) {
	r := newRig(t)
	write(t, r.at(cardDir+"/config.yaml"), `machine:
  hostname: kiosk
  sysctls: [{key: kernel.bad, value: "1"}, {key: kernel.good, value: "2"}]
  services: [{id: web, command: [/bin/web], restart: always}]
`)
	r.host.AddSysctl("kernel.good", "1", nil)
	r.processes.AddProgram("/bin/web", fake.Program{})
	r.node.processes = prompt{r.processes}
	r.node.watchdog = r.watchdog
	_, err := r.watchdog.Start(15)
	mustDo(t, err)
	now := time.Now()
	ca := apitest.NewCA(t, "test", now)
	mustDo(t, pki.WriteNode(r.at(cardPKI), apitest.NewNode(t, ca, now)))
	address := r.inherit(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.live(r.stage2)
	}()
	c, err := client.Dial(address, apitest.NewBundle(t, ca, now, time.Hour, pki.RoleAdmin), client.Options{})
	mustDo(t, err)
	defer c.Close()
	v, err := c.Version(t.Context())
	if err != nil || v.GetSlot() != "A" || v.GetBoard() != "test" {
		t.Errorf("Version = %v, %v; want slot A of board test", v, err)
	}
	for kind := range map[string]bool{"ServiceStatus": true, "MachineConfig": true, "LinkStatus": true, "MemoryStatus": true, "MountStatus": true, "VolumeStatus": true} {
		if entries, err := c.List(t.Context(), kind, ""); err != nil || len(entries) == 0 {
			t.Errorf("List(%s) = %v, %v; want some", kind, entries, err)
		}
	}
	mustDo(t, c.Shutdown(t.Context()))
	<-ended
	if r.power.Ending != fake.Off || r.watchdog.Armed() {
		t.Errorf("the machine ended as %d, watchdog armed: %v; want it off (%d) and not armed", r.power.Ending, r.watchdog.Armed(), fake.Off)
	}
	if name, _ := r.host.Hostname(); name != "kiosk" {
		t.Errorf("the host's name is %q; want kiosk", name)
	}
	if v, _ := r.host.Sysctl("kernel.good"); v != "2" {
		t.Errorf("kernel.good is %q; want 2, in spite of the bad one before", v)
	}
	for _, want := range []string{"sysctls: not found.", "shutdown: Going down, asked by laptop.", "shutdown: Done."} {
		if !r.screen.shows(r.log, want) {
			t.Errorf("the console lacks %q", want)
		}
	}
}

// TestWatchdogAtTheEnd checks that a machine that restarts keeps its watchdog,
// should the restart hang, and one that stays off is not reset by it.
func TestWatchdogAtTheEnd(t *testing.T) {
	for end, armed := range map[ending]bool{restart: true, powerOff: false} {
		r := newRig(t)
		r.node.watchdog = r.watchdog
		_, err := r.watchdog.Start(15)
		mustDo(t, err)
		r.down(&request{end: end, by: "test"})
		if r.watchdog.Armed() != armed {
			t.Errorf("after ending %d the watchdog is armed: %v; want %v", end, r.watchdog.Armed(), armed)
		}
	}
	// A board that was to stay off came back: on its way to a restart the power
	// failed.
	r := newRig(t)
	r.node.watchdog = r.watchdog
	_, err := r.watchdog.Start(15)
	mustDo(t, err)
	mustDo(t, r.ask(restart, "laptop"))
	first := r.requested()
	mustDo(t, r.ask(powerOff, "power failure"))
	r.down(first)
	if r.watchdog.Armed() {
		t.Error("the watchdog is armed after a power-off that overtook a restart")
	}
}

// slowMounts are disks that take their time.
type slowMounts struct {
	hal.Mounts
	sync func()
}

func (m slowMounts) Sync() { m.sync() }

// feeding counts how often the watchdog is fed.
type feeding struct {
	hal.Watchdog
	fed int
}

func (f *feeding) Feed() error { f.fed++; return nil }

// TestSlowDisksAtTheEnd: a card that took longer for what was in memory than the
// watchdog waits was cut off in the middle; one that takes nothing must not keep
// the machine from ending.
func TestSlowDisksAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		takes   time.Duration
		within  time.Duration
		unmount bool
	}{
		{"slow", 25 * time.Second, 55 * time.Second, true},
		{"dead", 24 * time.Hour, flushDeadline + time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			dog := &feeding{Watchdog: r.watchdog}
			r.node.watchdog = dog
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r.node.mounts = slowMounts{r.mounts, func() { time.Sleep(c.takes) }}
				r.down(&request{end: restart, by: "test"})
				took := time.Since(began)
				if took > c.within || dog.fed < int(took/time.Second) {
					t.Errorf("the way down took %s, with the watchdog fed %d times; want %s at most, and a feed a second", took, dog.fed, c.within)
				}
				if c.unmount && r.mounts.Flags(stateDir) != 0 {
					t.Error("STATE is mounted still")
				}
				time.Sleep(3 * c.takes) // the writer ends
			})
			if shown := r.screen.shows(r.log, "shutdown: The disks do not answer for 1m0s"); shown == c.unmount {
				t.Errorf("the console tells of disks that do not answer: %v; want %v", shown, !c.unmount)
			}
		})
	}
}

// TestStoppingIsTold: a watch is told how its services stop.
func TestStoppingIsTold(t *testing.T) {
	r := newRig(t)
	r.processes.AddProgram("/bin/web", fake.Program{})
	r.node.processes = prompt{r.processes}
	r.newSupervisor()
	r.loaded.Config.Machine.Services = []config.Service{{ID: "web", Command: []string{"/bin/web"}, StopGrace: time.Second}}
	mustDo(t, r.prepareServices())
	r.pass()
	moved := r.Moved()
	r.stopServices(time.Now().Add(shutdownDeadline))
	select {
	case <-moved:
	default:
		t.Error("nobody was told that service web has stopped")
	}
	if s, _, _ := r.store.Services.Get(resource.Named("web")); s.State != "Finished" {
		t.Errorf("service web is %+v; want it Finished", s)
	}
}

// TestUnmountAll checks that what holds data is unmounted, the last mounted
// first, and what is in use lazily.
func TestUnmountAll(t *testing.T) {
	r := newRig(t)
	r.mounts.AddDevice("/dev/sda1", "ext4")
	mustDo(t, r.mounts.Mount(hal.Mount{Source: "tmpfs", Target: "/run", FSType: "tmpfs"}))
	mustDo(t, r.mounts.Mount(hal.Mount{Source: "/dev/sda1", Target: stateDir + "/data", FSType: "ext4"}))
	r.mounts.SetBusy(stateDir, true)
	r.unmountAll()
	all, err := r.mounts.List()
	mustDo(t, err)
	var left []string
	for _, m := range all {
		left = append(left, m.Target)
	}
	if want := []string{bootDir, "/run"}; !slices.Equal(left, want) {
		t.Errorf("still mounted are %q; want %q, read-only and without a disk", left, want)
	}
	if !r.screen.shows(r.log, "shutdown: Detaching /system/state, which is in use: ") || r.mounts.Syncs != 2 {
		t.Errorf("%d syncs; want 2 and a word about the mount in use", r.mounts.Syncs)
	}
}

func byUser(end ending, by string) request {
	return request{end: end, by: by, reason: upgrade.ByUser}
}

func TestAsk(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		end  ending
		by   string
		err  error
		want request
	}{
		{restart, "laptop", nil, byUser(restart, "laptop")},
		{restart, "terminated", api.ErrBusy, byUser(restart, "laptop")},
		{powerOff, "power failure", nil, byUser(powerOff, "power failure")}, // it cannot wait
		{restart, "laptop", api.ErrBusy, byUser(powerOff, "power failure")},
		{powerOff, "laptop", api.ErrBusy, byUser(powerOff, "power failure")},
	} {
		if err := r.ask(c.end, c.by); !errors.Is(err, c.err) {
			t.Errorf("ask(%d, %q) = %v; want %v", c.end, c.by, err, c.err)
		}
		if got := r.requested(); got == nil || *got != c.want {
			t.Errorf("after ask(%d, %q) the request is %v; want %v", c.end, c.by, got, c.want)
		}
	}
}

// TestSystemOutOfReach checks that a resident node whose slot cannot be used
// goes on without services, and says so.
func TestSystemOutOfReach(t *testing.T) {
	for _, c := range []struct {
		name, message string
		damage        func(r *rig)
	}{
		{"no squashfs in the slot", "not found", func(*rig) {}},
		{"a squashfs that cannot be mounted", "invalid argument", func(r *rig) { r.mounts.AddFile("/boot/A/system.squashfs", "") }},
		{"no program in the squashfs", "no such file or directory", func(r *rig) { r.mounts.AddFile("/boot/A/system.squashfs", "squashfs") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.boot.Resident = true
			c.damage(r)
			mustDo(t, r.startControllers())
			r.server = api.NewServer(r, pki.NodeTLS(apitest.NewNode(t, apitest.NewCA(t, "test", time.Now()), time.Now()), time.Now), func(string) {})
			r.preload()
			p := r.successionDue()
			if p == nil || p.err == nil {
				t.Fatalf("preload found %v; want an error", p)
			}
			if again := r.successionDue(); again != nil {
				t.Errorf("successionDue() = %v at the second time; want nil", again)
			}
			mustDo(t, r.succeed(p))
			r.pass()
			var got resource.ServiceStatus
			for _, s := range r.list(resource.ServiceStatusKind) {
				if s.Key() == resource.Named("system") {
					got = s.(resource.ServiceStatus)
				}
			}
			want := "read the system of slot A: "
			if got.State != "Failed" || got.Healthy || len(got.Message) < len(want) || got.Message[:len(want)] != want {
				t.Errorf("service system is %+v; want it Failed with %q", got, want)
			}
			if !r.screen.shows(r.log, c.message) || !r.screen.shows(r.log, "succession: Going on from the initramfs, without services: ") {
				t.Errorf("the console does not say %q", c.message)
			}
			if r.boot.Resident {
				t.Error("the node still waits for its successor")
			}
		})
	}
}

// TestConfigSources checks which config is used, and that what is passed over
// is named.
func TestConfigSources(t *testing.T) {
	const bad = "machine: {hotsname: x}\n"
	for _, c := range []struct {
		name, state, card, image string
		source, rejected         string
	}{
		{name: "none", source: "built-in default"},
		{name: "image", image: "{}", source: imageConfig},
		{name: "card before image", card: "{}", image: "{}", source: cardDir + "/config.yaml"},
		{name: "STATE before card", state: "{}", card: "{}", source: stateDir + "/config.yaml"},
		{name: "a bad one is passed over", state: bad, card: bad, image: "{}", source: imageConfig,
			rejected: stateDir + "/config.yaml:1:11: "},
		{name: "all are bad", card: bad, image: "[", source: "built-in default", rejected: imageConfig + ":"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			for path, text := range map[string]string{stateDir + "/config.yaml": c.state, cardDir + "/config.yaml": c.card, imageConfig: c.image} {
				if text != "" {
					write(t, r.at(path), text)
				}
			}
			mustDo(t, r.loadConfig())
			got := r.list(resource.MachineConfigKind)[0].(resource.MachineConfig)
			if got.Source != c.source || !strings.Contains(got.Rejected, c.rejected) || c.rejected == "" && got.Rejected != "" {
				t.Errorf("the config is from %q, rejected %q; want %q, %q", got.Source, got.Rejected, c.source, c.rejected)
			}
		})
	}
}

// TestStateInDisk is about a STATE that is mounted already, and none at all.
func TestStateInDisk(t *testing.T) {
	r := newRig(t)
	r.state = state{}
	mustDo(t, r.mountState())
	if r.onState("dhcp") == "" {
		t.Error("the lease of the last boot is not looked for")
	}
	mustDo(t, r.startControllers())
	r.pass()
	if got, _, _ := r.store.Volumes.Get(resource.Named("STATE")); got.Phase != "Ready" || got.Device != "/dev/mmcblk0p2" {
		t.Errorf("VolumeStatus is %+v; want STATE ready on /dev/mmcblk0p2", got)
	}
	if !r.state.ready || !exists(r.at(stateMarker)) {
		t.Error("what hangs on STATE was not done")
	}
	r = newRig(t)
	r.state = state{}
	mustDo(t, r.mounts.Unmount(stateDir, false))
	r.boot.BootDisk = ""
	mustDo(t, r.mountState())
	mustDo(t, r.startControllers())
	r.pass()
	got, _, _ := r.store.Volumes.Get(resource.Named("STATE"))
	if want := "the node was not booted from a disk, and install.disk names none"; got.Phase != "Refused" || got.Message != want {
		t.Errorf("VolumeStatus is %+v; want it Refused: %s", got, want)
	}
	if r.state.ready || !r.state.settled {
		t.Errorf("the node's state is %+v; want it settled, and not ready", r.state)
	}
}
