package crash

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"machined/hal"
	"machined/hal/fake"
	"machined/rpi"
	"machined/x86"
)

// machine is a board with its boot partition.
type machine struct {
	name       string
	rules      Rules
	files      []string // of a slot
	outside    map[string]string
	flipFirst  bool
	version    string // of what a scenario installs
	bootloader func(hal.BootFiles) hal.Bootloader
}

func machines() []machine {
	pi := machine{
		name: "Raspberry Pi", rules: Pi, version: "v2",
		files: []string{"system.squashfs", "kernel8.img", "initramfs.img", "bcm2710-rpi-3-b-plus.dtb", "overlays/disable-bt.dtbo", "overlays/README"},
		outside: map[string]string{
			"bootcode.bin": "b", "start_cd.elf": "s", "fixup_cd.dat": "f", "machined/config.yaml": "machine: {}\n",
			"config.txt": rpi.Config('A', "enable_uart=1", "dtoverlay=disable-bt") + "\n# mine\n[pi3]\ndtparam=audio=on\n",
		},
		bootloader: func(f hal.BootFiles) hal.Bootloader { return &rpi.Bootloader{Files: f} },
	}
	flipFirst := pi
	flipFirst.name, flipFirst.flipFirst = "Raspberry Pi, flip first", true
	flipFirst.bootloader = func(f hal.BootFiles) hal.Bootloader { return &rpi.Bootloader{Files: f, Strategy: rpi.FlipFirst} }
	uefi := machine{
		name: "UEFI", rules: UEFI, version: "v2", files: []string{"system.squashfs", "initramfs.img", "linux.efi"},
		outside: map[string]string{
			"EFI/BOOT/BOOTX64.EFI": "l", "loader/loader.conf": "timeout 0\ndefault " + x86.DefaultPattern + "\neditor no\n",
			"loader/entries/machined-a.conf": x86.Entry("A", 1, "v1", "console=ttyS0 machined.slot=A"),
			"loader/entries/machined-b.conf": x86.Entry("B", 0, "v1", "console=ttyS0 machined.slot=B"),
			"loader/entries/other.conf":      "title another system\nlinux /other/linux.efi\n", "other/linux.efi": "o",
		},
		bootloader: func(f hal.BootFiles) hal.Bootloader { return &x86.Bootloader{Files: f} },
	}
	return []machine{pi, flipFirst, uefi}
}

func sum(b []byte) [32]byte { return sha256.Sum256(b) }

// data is the content of a file of a version, of several sectors for some.
func data(version, path string) []byte {
	return bytes.Repeat([]byte(version+" "+path+"\n"), 1+len(path)*20)
}

func (m machine) content(version string) hal.SlotContent {
	c := hal.SlotContent{Version: version, Board: "test", Arguments: "console=ttyS0 machined.image=" + version + strings.Repeat(" user.word", 60)} // beyond a sector
	for _, f := range m.files {
		b := data(version, f)
		c.Files = append(c.Files, hal.SlotFile{Path: f, Size: int64(len(b)), SHA256: sum(b)})
	}
	return c
}

// disk is what an image has: both slots whole, with version 1.
func (m machine) disk() *fake.BootFiles {
	b := &fake.BootFiles{Sum: sum}
	for path, text := range m.outside {
		b.Put(path, []byte(text))
	}
	for _, slot := range []string{"A", "B"} {
		c := m.content("v1")
		for _, f := range m.files {
			b.Put(slot+"/"+f, data("v1", f))
		}
		line := []byte("console=ttyS0 machined.slot=" + slot + "\n")
		b.Put(slot+"/cmdline.txt", line)
		files := append(c.Files, hal.SlotFile{Path: "cmdline.txt", Size: int64(len(line)), SHA256: sum(line)})
		b.Put(slot+"/manifest.json", []byte(hal.SlotManifest{Version: "v1", Board: "test", Files: files}.String()))
	}
	return b
}

// volume lets the firmware's rules see the files.
func volume(b *fake.BootFiles) fs.FS {
	m := fstest.MapFS{}
	for _, p := range b.Paths() {
		data, err := b.Read(p)
		if err != nil {
			panic(err) // a path that was just listed
		}
		m[p] = &fstest.MapFile{Data: data}
	}
	return m
}

// install stages a version.
func (m machine) install(f hal.BootFiles, running, version string) error {
	w, err := m.bootloader(f).Stage(running, m.content(version))
	if err != nil {
		return err
	}
	for _, path := range m.files {
		file, err := w.Create(path)
		if err != nil {
			return errors.Join(err, w.Abort())
		}
		_, err = file.Write(data(version, path))
		if err = errors.Join(err, file.Close()); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	return w.Finish()
}

// try asks for a trial and returns the rules by which the next boot chooses.
func (m machine) try(f hal.BootFiles, running, slot string) (Rules, error) {
	argument, err := m.bootloader(f).Try(running, slot)
	if argument != "" {
		return Trial, err
	}
	return m.rules, err
}

// start boots: the loader renames what it counts, and the node recovers what it
// finds.
func (m machine) start(f hal.BootFiles, boot fs.FS, rules Rules) (running string, err error) {
	c, err := Choose(boot, rules)
	if err != nil {
		return "", err
	}
	if err := c.rename(f); err != nil {
		return "", err
	}
	return c.Slot, m.bootloader(f).Recover(c.Slot)
}

// rename has the loader count a boot.
func (c Choice) rename(f hal.BootFiles) error {
	if c.From == "" {
		return nil
	}
	return errors.Join(f.Unlock(), f.Rename(c.From, c.To), f.Lock())
}

// upgrade is all of it, from the running slot to the committed other one, and
// what a node does before that with a trial under way.
func (m machine) upgrade(b *fake.BootFiles, running, version string) error {
	l := m.bootloader(b)
	st, err := l.State(running)
	if err != nil {
		return err
	}
	if st.Slots[running[0]-'A'].State == hal.SlotTrial {
		if err := l.Commit(running); err != nil {
			return err
		}
	}
	if err := m.install(b, running, version); err != nil {
		return err
	}
	slot := hal.OtherSlot(running)
	rules, err := m.try(b, running, slot)
	if err != nil {
		return err
	}
	if got, err := m.start(b, volume(b), rules); err != nil || got != slot {
		return errors.Join(err, errors.New("the trial boots slot "+got+"; want "+slot))
	}
	if err := l.Commit(slot); err != nil {
		return err
	}
	return m.committed(b, slot, version)
}

// truthful checks that no slot is said to be whole which is not.
func (m machine) truthful(b *fake.BootFiles) error {
	st, err := m.bootloader(b).State("A")
	for _, s := range st.Slots {
		if err == nil && s.State != hal.SlotEmpty {
			_, err = Whole(volume(b), s.Name)
		}
	}
	return err
}

// committed checks that nothing is left to do.
func (m machine) committed(b *fake.BootFiles, slot, version string) error {
	st, err := m.bootloader(b).State(slot)
	if err != nil {
		return err
	}
	s := st.Slots[slot[0]-'A']
	if st.Default != slot || st.Trial != "" || st.Problem != "" || s.State != hal.SlotGood || s.Version != version {
		return errors.New("after the commit of slot " + slot + ": default " + st.Default + ", trial " + st.Trial + ", state " + s.State.String() + ", version " + s.Version + ", problem " + st.Problem)
	}
	got, err := Check(volume(b), m.rules)
	if err == nil && got != slot {
		err = errors.New("slot " + got + " boots after the commit of slot " + slot)
	}
	return err
}

// TestUpgrades does several in a row, without cuts.
func TestUpgrades(t *testing.T) {
	for _, m := range machines() {
		t.Run(m.name, func(t *testing.T) {
			b, running := m.disk(), "A"
			// A rollback to an older version, and one of the same version, too.
			for _, version := range []string{"v2", "v3", "1-gabc", "0", "0"} {
				if err := m.upgrade(b, running, version); err != nil {
					t.Fatalf("upgrade to %s: %v", version, err)
				}
				running = hal.OtherSlot(running)
			}
			for path, text := range m.outside {
				if got, err := b.Read(path); err != nil || string(got) != strings.Replace(text, "os_prefix=A", "os_prefix="+running, 1) && !strings.Contains(path, "machined-") {
					t.Errorf("%s holds %q, %v; want it as it was", path, got, err)
				}
			}
		})
	}
}
