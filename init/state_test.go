package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/init/config"
	"machined/reconcile/resource"
)

// withoutVolumes returns a node whose boot disk has the boot partition alone,
// so far.
func withoutVolumes(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.state = state{}
	mustDo(t, r.mounts.Unmount(stateDir, false))
	mustDo(t, os.Remove(r.at(stateMarker)))
	r.blocks.Remove("mmcblk0p2")
	r.blocks.Remove("mmcblk0p3")
	r.node.disks = growing{r.disks}
	return r
}

// growing is a kernel whose file systems are as large as they should be.
type growing struct{ *fake.Disks }

func (growing) GrowExt4(string, int64) error { return nil }

// passes runs the loop until STATE is ready, with the jobs that it started.
func (r *rig) passes(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !r.state.ready; time.Sleep(time.Millisecond) {
		r.pass()
		if time.Now().After(deadline) {
			t.Fatalf("STATE is not ready after 10 s: %v", r.list(resource.VolumeStatusKind))
		}
	}
}

// TestLateState: a node whose STATE appears late, as on a USB disk, takes its
// config and its identity from there, and its services wait for that.
func TestLateState(t *testing.T) {
	r := withoutVolumes(t)
	write(t, r.at(cardDir+"/config.yaml"), "machine: {hostname: from-card, install: {disk: /dev/sda}}")
	mustDo(t, r.loadConfig())
	mustDo(t, r.startControllers())
	mustDo(t, r.loadIdentity())
	mustDo(t, r.holdServices())
	r.pass()
	if r.state.settled || r.identity != nil || r.servicesBy == 0 {
		t.Errorf("without its disk the node is %+v, identity %v, services held until %d; want it to wait", r.state, r.identity, r.servicesBy)
	}
	write(t, r.at(stateDir+"/config.yaml"), "machine: {hostname: from-state, services: [{id: web, command: [/bin/web]}]}")
	r.processes.AddProgram("/bin/web", fake.Program{})
	r.inherit(t) // a port for the API
	r.mounts.AddDevice("/dev/sda1", "ext4")
	r.blocks.AddDisk(hal.BlockDevice{Name: "sda", Path: "/dev/sda", Size: 8 << 30, Table: hal.GPT})
	r.blocks.AddPartition(hal.BlockDevice{Disk: "sda", Number: 1, Start: 1 << 20, Size: 128 << 20, Label: "STATE", FS: "ext4"})
	r.passes(t)
	if r.loaded.Source != stateDir+"/config.yaml" || r.hostname() != "from-state" {
		t.Errorf("the config is from %s; want the one of STATE", r.loaded.Source)
	}
	if r.identity == nil || r.server == nil || !exists(r.at(statePKI)) || !exists(r.at(stateMarker)) {
		t.Error("the node has no identity, or it is not kept on STATE")
	}
	r.pass()
	if s, _, _ := r.store.Services.Get(resource.Named("web")); s.State != "Running" {
		t.Errorf("service web is %+v; want it Running", s)
	}
	r.server.Stop(time.Second)
}

// TestServicesWithoutState: a disk that never comes costs the services a minute
// and no more.
func TestServicesWithoutState(t *testing.T) {
	r := withoutVolumes(t)
	write(t, r.at(cardDir+"/config.yaml"), "machine: {install: {disk: /dev/sda}, services: [{id: web, command: [/bin/web]}]}")
	r.processes.AddProgram("/bin/web", fake.Program{})
	mustDo(t, r.loadConfig())
	mustDo(t, r.startControllers())
	mustDo(t, r.holdServices())
	r.clock.Advance(int64(stateWait) - 1)
	r.pass()
	if r.servicesBy == 0 {
		t.Error("the services start before their time")
	}
	r.clock.Advance(1)
	r.pass()
	if s, _, _ := r.store.Services.Get(resource.Named("web")); s.State != "Running" {
		t.Errorf("service web is %+v; want it Running", s)
	}
}

// TestFirstBootMakesVolumes goes from the boot partition alone to both volumes.
func TestFirstBootMakesVolumes(t *testing.T) {
	r := withoutVolumes(t)
	r.blocks.Mounts = r.mounts
	mustDo(t, os.MkdirAll(r.at(templateDir), 0o755))
	r.settings = newSettings(config.Machine{Volumes: config.Volumes{StateSize: 64 << 20, EphemeralSize: 256 << 20}})
	mustDo(t, r.startControllers())
	r.inherit(t)
	r.passes(t)
	defer r.server.Stop(time.Second)
	for name, size := range map[string]int64{"mmcblk0p2": 64 << 20, "mmcblk0p3": 256 << 20} {
		if d, _ := r.blocks.Find(name); d.Size != size || d.FS != "ext4" {
			t.Errorf("%s is %+v; want an ext4 of %d bytes", name, d, size)
		}
	}
	if got := r.mounts.Flags(stateDir); got != hal.NoSuid|hal.NoDev|hal.NoExec {
		t.Errorf("STATE is mounted with %b; want nosuid, nodev, noexec", got)
	}
}

// TestResidentMakesNothing: the program in the initramfs leaves volumes to its
// successor, and says nothing of it; one that has to stay reports it.
func TestResidentMakesNothing(t *testing.T) {
	r := withoutVolumes(t)
	r.boot.Resident = true
	mustDo(t, r.startControllers())
	r.pass()
	v, _, _ := r.store.Volumes.Get(resource.Named("STATE"))
	if v.Phase != "Waiting" || r.state.settled || r.screen.shows(r.log, "volumes: ") {
		t.Errorf("STATE is %+v, settled: %v; want it Waiting, without a word on the console", v, r.state.settled)
	}
	r.boot.Resident = false // as when the slot's system cannot be used
	r.clock.Advance(int64(time.Minute))
	r.pass()
	if v, _, _ = r.store.Volumes.Get(resource.Named("STATE")); v.Phase != "Failed" || !r.state.settled {
		t.Errorf("STATE is %+v, settled: %v; want it Failed, since nothing can make it", v, r.state.settled)
	}
}

// TestFailedStateIsWaitedFor: services started by the card's config, for good,
// when the first try to mount STATE had failed.
func TestFailedStateIsWaitedFor(t *testing.T) {
	r := withoutVolumes(t)
	r.blocks.AddPartition(hal.BlockDevice{Disk: "mmcblk0", Number: 2, Start: 257 << 20, Size: 128 << 20, Type: "83", FS: "ext4", FSLabel: "STATE"})
	r.mounts.Fail("Mount", 1, errors.New("not yet"))
	mustDo(t, r.loadConfig())
	mustDo(t, r.startControllers())
	mustDo(t, r.holdServices())
	r.inherit(t)
	write(t, r.at(stateDir+"/config.yaml"), "machine: {services: [{id: web, command: [/bin/web]}]}")
	r.processes.AddProgram("/bin/web", fake.Program{})
	r.pass()
	if v, _, _ := r.store.Volumes.Get(resource.Named("STATE")); v.Message != "not yet" || r.state.settled || r.servicesBy == 0 {
		t.Fatalf("after a failed mount STATE is %+v, the node %+v, services held until %d; want it to wait", v, r.state, r.servicesBy)
	}
	r.clock.Advance(int64(stateWait - time.Second))
	r.passes(t)
	defer r.server.Stop(time.Second)
	r.pass()
	if s, _, _ := r.store.Services.Get(resource.Named("web")); s.State != "Running" {
		t.Errorf("service web is %+v; want it Running, as STATE's config has it", s)
	}
}

// TestConfigAfterItsTime: what a config of a late STATE says is done.
func TestConfigAfterItsTime(t *testing.T) {
	r := withoutVolumes(t)
	r.node.watchdog = r.watchdog
	r.host.AddSysctl("vm.swappiness", "60", nil)
	mustDo(t, r.loadConfig())
	mustDo(t, r.holdServices())
	r.inherit(t)
	r.clock.Advance(int64(stateWait))
	_, err := r.watchdog.Start(15)
	mustDo(t, err)
	r.releaseServices(r.clock.SinceBoot())
	if !r.state.settled || !r.screen.shows(r.log, "api: the API stays off: the node has no identity.") {
		t.Error("after a minute without STATE the console does not say why there is no API")
	}
	write(t, r.at(stateDir+"/config.yaml"), `machine:
  sysctls: [{key: vm.swappiness, value: "1"}]
  watchdog: {disabled: true}
  services: [{id: web, command: [/bin/web]}]
`)
	mustDo(t, r.markState())
	r.state.mounted, r.state.late, r.state.ready = true, true, true
	r.withState()
	defer r.server.Stop(time.Second)
	if v, _ := r.host.Sysctl("vm.swappiness"); v != "1" || r.watchdog.Armed() {
		t.Errorf("vm.swappiness is %q, the watchdog armed: %v; want what STATE's config says", v, r.watchdog.Armed())
	}
	r.processes.AddProgram("/bin/web", fake.Program{})
	r.pass()
	if s, _, _ := r.store.Services.Get(resource.Named("web")); s.State != "Running" {
		t.Errorf("service web is %+v; want it Running by the config that came late", s)
	}
}

// TestLateStateAfterSync: a clock that a server has set was raised again, to
// the wrong time that a late STATE had kept.
func TestLateStateAfterSync(t *testing.T) {
	r := newRig(t)
	mustDo(t, r.clock.Set((y2026+400*86400)*1e9))
	mustDo(t, r.loadIdentity()) // as on an earlier boot, of a wrong clock
	r.Used(fingerprint(t, r))
	r.clearCard()
	r = r.again(t)
	r.inherit(t)
	write(t, r.at(clockFile), "1801787200\n") // early in 2027
	r.synced(t, 1)
	r.state.ready = true
	r.withState()
	defer r.server.Stop(time.Second)
	r.followClock()
	if got := r.clock.Now(); got != y2026*1e9 {
		t.Errorf("the clock was set to %s; want it left as the server has said", time.Unix(0, got).UTC())
	}
	if !r.screen.shows(r.log, "the CA is not in force") {
		t.Error("the certificate that came with STATE was not looked at")
	}
	r.synced(t, 2)
	r.synced(t, 3)
	if n := r.screen.count(r.log, "the CA is not in force"); n != 1 {
		t.Errorf("the console says it %d times; want once", n)
	}
}
