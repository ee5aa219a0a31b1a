package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/signature"
)

// sysTree is a sysfs and a /dev with files in place of disks.
type sysTree struct {
	t        *testing.T
	sys, dev string
}

func newSysTree(t *testing.T) *sysTree {
	t.Helper()
	dir := t.TempDir()
	s := &sysTree{t: t, sys: filepath.Join(dir, "sys"), dev: filepath.Join(dir, "dev")}
	for _, d := range []string{filepath.Join(s.sys, "class", "block"), s.dev} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// attributes writes files below a device's directory, which it returns.
func (s *sysTree) attributes(path string, values map[string]string) string {
	s.t.Helper()
	at := filepath.Join(s.sys, "devices", path)
	for name, value := range values {
		file := filepath.Join(at, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	return at
}

// block adds a block device at a place such as pci0/ata1/host0/block/sda.
func (s *sysTree) block(path string, values map[string]string) {
	s.t.Helper()
	at := s.attributes(path, values)
	link := filepath.Join(s.sys, "class", "block", filepath.Base(path))
	if err := os.Symlink(at, link); err != nil && !errors.Is(err, os.ErrExist) {
		s.t.Fatal(err)
	}
}

// addDisk adds a disk whose partitions are those of the table that is on it,
// as the kernel would have it.
func (s *sysTree) addDisk(name string, kind conformance.DiskKind) {
	s.t.Helper()
	const size = 64 << 20
	image := filepath.Join(s.dev, name)
	if err := conformance.MakeImage(image, kind, size); err != nil {
		s.t.Fatal(err)
	}
	f, err := os.Open(image)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	table, err := signature.ReadTable(f, size, 512)
	if err != nil {
		s.t.Fatal(err)
	}
	path := "pci0/virtio1/block/" + name
	s.block(path, map[string]string{"size": fmt.Sprint(size / 512), "ro": "0\n", "queue/logical_block_size": "512\n"})
	for _, p := range table.Partitions {
		part := filepath.Base(PartitionPath("/dev/"+name, p.Number))
		b := make([]byte, p.Size)
		if _, err := f.ReadAt(b, p.Start); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dev, part), b, 0o600); err != nil {
			s.t.Fatal(err)
		}
		s.block(path+"/"+part, map[string]string{
			"partition": strconv.Itoa(p.Number), "start": fmt.Sprint(p.Start / 512), "size": fmt.Sprint(p.Size / 512), "ro": "0",
		})
	}
}

func (s *sysTree) remove(name string) {
	s.t.Helper()
	for number := range 5 {
		device := name
		if number > 0 {
			device = filepath.Base(PartitionPath("/dev/"+name, number))
		}
		_ = os.Remove(filepath.Join(s.sys, "class", "block", device))
		_ = os.Remove(filepath.Join(s.dev, device))
	}
	if err := os.RemoveAll(filepath.Join(s.sys, "devices", "pci0/virtio1/block", name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sysTree) driver() *BlockDevices {
	b := NewBlockDevices(s.sys, s.dev)
	b.listen = func() (ueventSource, error) { return nil, errors.New("no events here") }
	return b
}

func TestBlockDevices(t *testing.T) {
	conformance.BlockDevices(t, func(t *testing.T) conformance.BlockDevicesRig {
		s := newSysTree(t)
		b := s.driver()
		return conformance.BlockDevicesRig{
			Devices: unknownBus{b}, Settle: func() { b.scan() },
			Add:    func(_ *testing.T, name string, kind conformance.DiskKind) { s.addDisk(name, kind) },
			Remove: func(_ *testing.T, name string) { s.remove(name) },
		}
	})
}

// unknownBus hides what the suite does not ask for.
type unknownBus struct{ *BlockDevices }

func (u unknownBus) Devices() []hal.BlockDevice {
	var out []hal.BlockDevice
	for _, d := range u.BlockDevices.Devices() {
		d.Bus = ""
		out = append(out, d)
	}
	return out
}

func TestHardware(t *testing.T) {
	s := newSysTree(t)
	basic := func(more map[string]string) map[string]string {
		values := map[string]string{"size": "2048\n", "removable": "0\n", "ro": "0\n"}
		for k, v := range more {
			values[k] = v
		}
		return values
	}
	s.block("pci0/ata3/host2/target2:0:0/2:0:0:0/block/sda", basic(map[string]string{
		"device/vendor": "ATA     \n", "device/model": "Samsung SSD 870 \n", "device/vpd_pg80": "\x00\x80\x00\x08S5ABCDEF", "queue/rotational": "0\n",
	}))
	s.attributes("pci0/usb2/2-1", map[string]string{"idVendor": "0781\n", "serial": "4C53000\n"})
	s.block("pci0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb", basic(map[string]string{
		"device/vendor": "SanDisk \n", "device/model": "Ultra Fit\n", "removable": "1\n", "queue/rotational": "1\n",
	}))
	s.block("platform/soc/3f202000.mmc/mmc_host/mmc0/mmc0:aaaa/block/mmcblk0", basic(map[string]string{
		"device/name": "SC32G\n", "device/serial": "0x12345678\n", "device/type": "SD\n", "ro": "1\n",
	}))
	s.block("pci0/nvme/nvme0/nvme0n1", basic(map[string]string{"device/model": "WD  Blue\n", "device/serial": "21  X \n"}))
	s.block("pci0/virtio2/block/vda", basic(map[string]string{"device/vendor": "0x1af4\n", "serial": "disk-1"}))
	for _, name := range []string{"loop0", "ram1", "zram0", "dm-3", "fd0", "mtdblock2", "mmcblk0boot0", "mmcblk0boot1", "mmcblk0rpmb", "nbd0"} {
		s.block("virtual/block/"+name, basic(nil))
	}
	s.block("pci0/ata4/host3/target3:0:0/3:0:0:0/block/sr0", basic(map[string]string{"size": "0\n"}))
	s.block("virtual/nvme-subsystem/nvme0c0n1", basic(map[string]string{"hidden": "1\n"}))
	for _, name := range []string{"sda", "sdb", "mmcblk0", "nvme0n1", "vda"} {
		if err := os.WriteFile(filepath.Join(s.dev, name), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := s.driver()
	b.scan()
	want := []hal.BlockDevice{
		{Name: "mmcblk0", Bus: "mmc", Model: "SC32G", Serial: "0x12345678", ReadOnly: true},
		{Name: "nvme0n1", Bus: "nvme", Model: "WD  Blue", Serial: "21  X"},
		{Name: "sda", Bus: "ata", Model: "Samsung SSD 870", Serial: "S5ABCDEF"},
		{Name: "sdb", Bus: "usb", Model: "SanDisk Ultra Fit", Serial: "4C53000", Removable: true, Rotational: true},
		{Name: "vda", Bus: "virtio", Serial: "disk-1"},
	}
	got := b.Devices()
	if len(got) != len(want) {
		t.Fatalf("Devices() = %+v; want %d", got, len(want))
	}
	for i, w := range want {
		w.Path, w.Disk, w.Size, w.Unused, w.Blank = filepath.Join(s.dev, w.Name), w.Name, 1<<20, 1<<20, true
		if got[i] != w {
			t.Errorf("device %d is %+v; want %+v", i, got[i], w)
		}
	}
}

// slowFile hangs in its first read until released.
type slowFile struct {
	blockFile
	release chan struct{}
}

func (f slowFile) ReadAt(b []byte, off int64) (int, error) {
	<-f.release
	return f.blockFile.ReadAt(b, off)
}

// TestDiskThatHangs checks that a card which does not answer holds nobody up,
// that it is not asked again and again, and that it is found once it answers.
func TestDiskThatHangs(t *testing.T) {
	s := newSysTree(t)
	s.addDisk("mmcblk0", conformance.ImageMBR)
	s.addDisk("sda", conformance.BlankDisk)
	b := s.driver()
	b.patience = 300 * time.Millisecond
	release := make(chan struct{})
	opened := make(chan struct{}, 100)
	b.open = func(path string) (blockFile, error) {
		f, err := openBlock(path)
		if err != nil || filepath.Base(path) != "mmcblk0" {
			return f, err
		}
		opened <- struct{}{}
		return slowFile{f, release}, nil
	}
	for range 5 {
		b.Rescan()
		b.scan()
		devices := b.Devices()
		if len(devices) != 3 || devices[0].Trouble == "" || devices[1].Trouble == "" || devices[0].Blank || !devices[2].Blank {
			t.Fatalf("Devices() = %+v; want the card and its partition in trouble, and sda", devices)
		}
	}
	if n := len(opened); n != 1 {
		t.Errorf("the card was opened %d times; want once", n)
	}
	<-b.kick // of the Rescans
	close(release)
	<-b.kick // it answers at last
	b.patience = patience
	b.scan()
	if devices := b.Devices(); len(devices) != 3 || devices[0].Trouble != "" || devices[1].FS != "vfat" {
		t.Errorf("Devices() = %+v; want the card and its partition read", devices)
	}
}

// TestReadsOnlyWhatChanged counts how often disks are opened.
func TestReadsOnlyWhatChanged(t *testing.T) {
	s := newSysTree(t)
	s.addDisk("sda", conformance.ImageGPT)
	s.addDisk("sdb", conformance.BlankDisk)
	b := s.driver()
	opened := make(map[string]int)
	b.open = func(path string) (blockFile, error) {
		opened[filepath.Base(path)]++
		return openBlock(path)
	}
	check := func(what string, a, b int) {
		t.Helper()
		if opened["sda"] != a || opened["sdb"] != b {
			t.Errorf("after %s sda was opened %d times and sdb %d; want %d and %d", what, opened["sda"], opened["sdb"], a, b)
		}
	}
	b.scan()
	check("the first scan", 1, 1)
	b.scan()
	check("another", 1, 1)
	b.note("sdb")
	b.scan()
	check("an event of sdb", 1, 2)
	s.block("pci0/virtio1/block/sda", map[string]string{"size": "262144"})
	b.scan()
	check("sda grew", 2, 2)
	b.Rescan()
	b.scan()
	check("Rescan", 3, 3)
}

// toldEvents is a source of events for a test.
type toldEvents struct{ events chan uevent }

func (e toldEvents) next() (uevent, error) {
	if u, ok := <-e.events; ok {
		return u, nil
	}
	return uevent{}, os.ErrClosed
}

func (e toldEvents) Close() error { close(e.events); return nil }

func TestRunFollowsEvents(t *testing.T) {
	s := newSysTree(t)
	b := s.driver()
	events := make(chan uevent)
	b.listen = func() (ueventSource, error) { return toldEvents{events}, nil }
	changed, warned := make(chan int, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		b.Run(ctx, func() { changed <- len(b.Devices()) }, func(err error) { warned <- err })
		close(ended)
	}()
	wait := func(want int) {
		t.Helper()
		select {
		case n := <-changed:
			if n != want {
				t.Errorf("changed with %d devices; want %d", n, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("nothing changed in 10 s")
		}
	}
	wait(0)
	s.addDisk("sda", conformance.ImageGPT)
	for range 50 { // a disk comes in many pieces
		events <- uevent{subsystem: "block", disk: "sda"}
	}
	events <- uevent{subsystem: "net", disk: "eth0"}
	events <- uevent{subsystem: "block", disk: "loop0"}
	wait(2)
	s.remove("sda")
	b.Rescan()
	wait(0)
	if n := b.Scans(); n != 3 || len(changed) != 0 {
		t.Errorf("Scans() = %d, and changed %d times more; want 3 and no more", n, len(changed))
	}
	cancel()
	<-ended
	if len(warned) != 0 {
		t.Errorf("warn(%v); want no warning", <-warned)
	}
}

func TestRunWithoutEvents(t *testing.T) {
	s := newSysTree(t)
	s.addDisk("sda", conformance.BlankDisk)
	ctx, cancel := context.WithCancel(t.Context())
	var warned error
	s.driver().Run(ctx, cancel, func(err error) { warned = err })
	if warned == nil {
		t.Error("Run did not warn that there are no events")
	}
}
