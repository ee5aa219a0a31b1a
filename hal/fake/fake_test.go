package fake_test

import (
	"strconv"
	"testing"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/fake"
)

const (
	second = int64(1e9)
	y2026  = int64(1767225600e9)
)

func TestClock(t *testing.T) {
	clock := fake.NewClock(y2026)
	conformance.Clock(t, clock, func() { clock.Advance(second) })
}

func TestClockSet(t *testing.T) {
	clock := fake.NewClock(y2026)
	clock.Advance(3 * second)
	if err := clock.Set(y2026 - second); err != nil {
		t.Fatalf("Set = %v; want success", err)
	}
	if now, boot := clock.Now(), clock.SinceBoot(); now != y2026-second || boot != 3*second {
		t.Errorf("after Set: Now() = %d, SinceBoot() = %d; want %d, %d", now, boot, y2026-second, 3*second)
	}
}

func TestHost(t *testing.T) {
	conformance.Host(t, func(*testing.T) conformance.HostRig {
		h := fake.NewHost("machined")
		h.AddSysctl("net.ipv4.ip_forward", "0", func(v string) bool { return v != "0" && v != "1" })
		h.AddSysctl("net.ipv4.tcp_congestion_control", "cubic", func(v string) bool { return v != "cubic" })
		return conformance.HostRig{
			Host: h, Key: "net.ipv4.ip_forward", Good: "1", Bad: []string{"nonsense", ""},
			Named: "net.ipv4.tcp_congestion_control", Stranger: "nonsense", Directory: "net.ipv4",
		}
	})
}

func TestWatchdog(t *testing.T) {
	conformance.Watchdog(t, func(*testing.T) conformance.WatchdogRig {
		clock := fake.NewClock(y2026)
		dog, absent := fake.NewWatchdog(clock), fake.NewWatchdog(clock)
		absent.Absent = true
		return conformance.WatchdogRig{Watchdog: dog, Absent: absent, Armed: dog.Armed}
	})
}

// TestWatchdogFires checks that one missed feeding resets the machine for
// good, and that feeding in time never does.
func TestWatchdogFires(t *testing.T) {
	clock := fake.NewClock(y2026)
	dog := fake.NewWatchdog(clock)
	dog.Max = 15
	if got, err := dog.Start(60); got != 15 || err != nil {
		t.Fatalf("Start(60) = %d, %v; want the 15 s of the hardware", got, err)
	}
	for range 100 {
		clock.Advance(14 * second)
		if err := dog.Feed(); err != nil || dog.Fired() {
			t.Fatalf("Feed() = %v, Fired() = %v; want a watchdog that is content", err, dog.Fired())
		}
	}
	clock.Advance(15 * second)
	_ = dog.Feed()
	if !dog.Fired() {
		t.Error("Fired() = false after 15 s without feeding; want true")
	}
}

func TestPower(t *testing.T) {
	ended := func(p *fake.Power) conformance.Ended {
		switch p.Ending {
		case fake.Restarted:
			return conformance.Restarted
		case fake.Off:
			return conformance.SwitchedOff
		}
		return conformance.Running
	}
	conformance.Power(t, conformance.PowerRig{
		Restart: func(t *testing.T, arg string) conformance.Ended {
			p := &fake.Power{}
			if err := p.Restart(arg); err == nil || p.Arg != arg {
				t.Errorf("Restart(%q) = %v with argument %q", arg, err, p.Arg)
			}
			return ended(p)
		},
		PowerOff: func(t *testing.T) conformance.Ended {
			p := &fake.Power{}
			if err := p.PowerOff(); err == nil {
				t.Error("PowerOff() returned without an error")
			}
			return ended(p)
		},
		StartKernel: func(*testing.T) error { return (&fake.Power{}).StartKernel() },
		LoadKernel:  func(*testing.T) error { return (&fake.Power{}).LoadKernel("", "", "") },
	})
}

func TestDisks(t *testing.T) {
	conformance.Disks(t, func(*testing.T) conformance.DisksRig {
		d := &fake.Disks{}
		d.AddDisk("/dev/mmcblk0", 64*mib)
		d.AddExt4("/system/state", 16*mib, 32*mib)
		return conformance.DisksRig{
			Disks: d, Disk: "/dev/mmcblk0", Want: "/dev/mmcblk0p2", Mounted: "/system/state",
			Size: func() int64 { return d.Ext4Size("/system/state") },
		}
	})
}

func TestMounts(t *testing.T) {
	conformance.Mounts(t, func(*testing.T) conformance.MountsRig {
		m := &fake.Mounts{}
		m.AddFile("/boot/A/system.squashfs", "squashfs")
		m.AddDevice("/dev/sdb1", "")
		return conformance.MountsRig{
			Mounts: m, Image: "/boot/A/system.squashfs", FSType: "squashfs", Blank: "/dev/sdb1",
			Dir: func(name string) string {
				if name == "" {
					return "/rig"
				}
				return "/rig/" + name
			},
			Use: func(_ *testing.T, target string) func() {
				m.SetBusy(target, true)
				return func() { m.SetBusy(target, false) }
			},
			Attached: func(device string) bool {
				for _, d := range m.Devices() {
					if d == device {
						return true
					}
				}
				return false
			},
		}
	})
}

func TestLinks(t *testing.T) {
	conformance.Links(t, func(*testing.T) conformance.LinksRig {
		l := &fake.Links{}
		l.Add(hal.Link{Name: "lo", Loopback: true, MTU: 65536})
		r := conformance.LinksRig{Links: l, Settle: func() {}}
		r.Link = l.Add(hal.Link{Name: "eth0", Wired: true, MAC: [6]byte{2, 0, 0, 0, 0, 1}})
		r.Other = l.Add(hal.Link{Name: "eth1", Wired: true, MAC: [6]byte{2, 0, 0, 0, 0, 2}})
		r.Remove = func() { l.Remove(r.Link) }
		return r
	})
}

func TestProcesses(t *testing.T) {
	conformance.Processes(t, func(*testing.T) conformance.ProcessesRig {
		clock := fake.NewClock(y2026)
		p := fake.NewProcesses(clock)
		p.AddProgram("/bin/sleep", fake.Program{})
		p.AddProgram("/bin/stubborn", fake.Program{IgnoreTerm: true})
		return conformance.ProcessesRig{
			Processes: p,
			Exit: func(code int) []string {
				path := "/bin/exit" + strconv.Itoa(code)
				p.AddProgram(path, fake.Program{Lifetime: 1, Code: code})
				return []string{path}
			},
			Sleep: []string{"/bin/sleep"}, Stubborn: []string{"/bin/stubborn"}, Absent: []string{"/bin/absent"},
			Advance: func() { clock.Advance(second); p.Step() }, Settle: func() {},
		}
	})
}

func TestCgroups(t *testing.T) {
	conformance.Cgroups(t, func(*testing.T) conformance.CgroupsRig {
		clock := fake.NewClock(y2026)
		p := fake.NewProcesses(clock)
		p.AddProgram("/bin/sleep", fake.Program{})
		return conformance.CgroupsRig{
			Cgroups: fake.NewCgroups(p), Processes: p, Base: "/test", Sleep: []string{"/bin/sleep"},
			Advance: func() { clock.Advance(second); p.Step() },
		}
	})
}

func TestFaults(t *testing.T) {
	l := &fake.Links{}
	eth0 := l.Add(hal.Link{Name: "eth0"})
	l.Fail("SetUp", 2, hal.ErrNoDevice)
	l.Fail("SetUp", 4, hal.ErrInvalid)
	for i, want := range []error{nil, hal.ErrNoDevice, nil, hal.ErrInvalid, nil} {
		if got := l.SetUp(eth0, true); got != want {
			t.Errorf("call %d of SetUp = %v; want %v", i+1, got, want)
		}
	}
	l.FailAlways("List", hal.ErrNoDevice)
	for range 3 {
		if _, err := l.List(); err != hal.ErrNoDevice {
			t.Errorf("List() = %v; want %v for ever", err, hal.ErrNoDevice)
		}
	}
	l.Heal("List")
	if _, err := l.List(); err != nil {
		t.Errorf("List() = %v after Heal; want success", err)
	}
}
