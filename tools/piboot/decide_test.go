package piboot

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// card is a boot partition: a path and contents for each file.
type card map[string]string

// twoSlots is the layout that machined writes, with slot A as the default and
// slot B on trial.
func twoSlots() card {
	c := card{
		"bootcode.bin": "", "start_cd.elf": "", "fixup_cd.dat": "", "start.elf": "", "fixup.dat": "",
		"config.txt":  "os_prefix=A/\narm_64bit=1\ngpu_mem=16\ninitramfs initramfs followkernel\ndtoverlay=disable-bt\n",
		"tryboot.txt": "os_prefix=B/\narm_64bit=1\ngpu_mem=16\ninitramfs initramfs followkernel\ndtoverlay=disable-bt\n",
	}
	for _, slot := range []string{"A/", "B/"} {
		for _, name := range []string{"kernel8.img", "initramfs", "bcm2710-rpi-3-b-plus.dtb", "overlays/README", "overlays/disable-bt.dtbo"} {
			c[slot+name] = ""
		}
		c[slot+"cmdline.txt"] = "console=ttyAMA0 slot=" + slot[:1] + "\n"
	}
	return c
}

// with gives a copy with files replaced; the contents "-" remove one.
func (c card) with(changes ...string) card {
	n := card{}
	for k, v := range c {
		n[k] = v
	}
	for i := 0; i < len(changes); i += 2 {
		n[changes[i]] = changes[i+1]
		if changes[i+1] == "-" {
			delete(n, changes[i])
		}
	}
	return n
}

func (c card) fs() fs.FS {
	m := fstest.MapFS{}
	for name, data := range c {
		m[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return m
}

func wantSlot(config, slot string) Choice {
	p := slot + "/"
	return Choice{
		Start: "start_cd.elf", Fixup: "fixup_cd.dat", ConfigFile: config, OSPrefix: p, Arm64: true,
		Kernel: p + "kernel8.img", Initramfs: []string{p + "initramfs"}, DeviceTree: p + "bcm2710-rpi-3-b-plus.dtb",
		Overlays: []string{p + "overlays/disable-bt.dtbo"}, CmdlineFile: p + "cmdline.txt", Cmdline: "console=ttyAMA0 slot=" + slot,
	}
}

func TestDecide(t *testing.T) {
	base := twoSlots()
	change := func(c Choice, f func(*Choice)) Choice { f(&c); return c }
	slotA, slotB := wantSlot("config.txt", "A"), wantSlot("tryboot.txt", "B")
	config := base["config.txt"]
	bare := card{"bootcode.bin": "", "start.elf": "", "fixup.dat": "", "kernel7.img": "", "bcm2710-rpi-3-b.dtb": "", "cmdline.txt": "x"}
	tests := []struct {
		name    string
		card    card
		tryboot bool
		want    Choice
		warns   string // part of one of the warnings; "" for none at all
	}{
		{name: "default slot", card: base, want: slotA},
		{name: "trial slot", card: base, tryboot: true, want: slotB},
		{name: "tryboot.txt missing", card: base.with("tryboot.txt", "-"), tryboot: true, want: slotA, warns: "this is no trial boot"},
		{name: "autoboot.txt decides", card: base.with("autoboot.txt", "[all]\ntryboot_a_b=1\nboot_partition=2\n"), tryboot: true,
			want: slotA, warns: "partition 2"},
		{name: "kernel missing under the prefix", card: base.with("A/kernel8.img", "-", "kernel8.img", "", "bcm2710-rpi-3-b.dtb", "", "initramfs", "", "cmdline.txt", "old\n", "overlays/disable-bt.dtbo", ""),
			want: change(slotA, func(c *Choice) {
				c.OSPrefix, c.PrefixDropped, c.DropReason = "", true, "A/kernel8.img is missing"
				c.Kernel, c.DeviceTree, c.Initramfs = "kernel8.img", "bcm2710-rpi-3-b.dtb", []string{"initramfs"}
				c.Overlays, c.CmdlineFile, c.Cmdline = []string{"overlays/disable-bt.dtbo"}, "cmdline.txt", "old"
			}), warns: "os_prefix=A/ is dropped: A/kernel8.img is missing"},
		{name: "device tree missing under the prefix", card: base.with("A/bcm2710-rpi-3-b-plus.dtb", "-", "kernel8.img", "", "bcm2710-rpi-3-b.dtb", "", "initramfs", "", "cmdline.txt", "", "overlays/disable-bt.dtbo", ""),
			want: change(slotA, func(c *Choice) {
				c.OSPrefix, c.PrefixDropped, c.DropReason = "", true, "A/bcm2710-rpi-3-a-plus.dtb is missing"
				c.Kernel, c.DeviceTree, c.Initramfs = "kernel8.img", "bcm2710-rpi-3-b.dtb", []string{"initramfs"}
				c.Overlays, c.CmdlineFile, c.Cmdline = []string{"overlays/disable-bt.dtbo"}, "cmdline.txt", ""
			}), warns: "is dropped"},
		{name: "the model's own tree wins", card: base.with("A/bcm2710-rpi-3-a-plus.dtb", ""),
			want: change(slotA, func(c *Choice) { c.DeviceTree = "A/bcm2710-rpi-3-a-plus.dtb" })},
		{name: "tree by name", card: base.with("A/bcm2837-rpi-3-a-plus.dtb", "", "config.txt", config+"device_tree=bcm2837-rpi-3-a-plus.dtb\n"),
			want: change(slotA, func(c *Choice) { c.DeviceTree = "A/bcm2837-rpi-3-a-plus.dtb" })},
		{name: "upstream tree", card: base.with("A/bcm2837-rpi-3-b-plus.dtb", "", "config.txt", config+"upstream_kernel=1\n"),
			want: change(slotA, func(c *Choice) { c.DeviceTree = "A/bcm2837-rpi-3-b-plus.dtb" })},
		{name: "no tree wanted", card: base.with("A/bcm2710-rpi-3-b-plus.dtb", "-", "config.txt", config+"device_tree=\n"),
			want: change(slotA, func(c *Choice) { c.DeviceTree = "" })},
		{name: "absolute paths take no prefix", card: base.with("k/shared.img", "", "config.txt", config+"kernel=/k/shared.img\n"),
			want: change(slotA, func(c *Choice) { c.Kernel = "k/shared.img" })},
		{name: "absolute prefix", card: base.with("config.txt", strings.Replace(config, "A/", "/A/", 1)),
			want: change(slotA, func(c *Choice) { c.OSPrefix = "/A/" })},
		{name: "prefix that is no directory", card: base.with("t-kernel8.img", "", "t-bcm2710-rpi-3-b.dtb", "", "t-cmdline.txt", "t", "overlays/x.dtbo", "", "config.txt", "os_prefix=t-\narm_64bit=1\ngpu_mem=16\ndtoverlay=x\n"),
			want: change(slotA, func(c *Choice) {
				c.OSPrefix, c.Kernel, c.DeviceTree, c.Initramfs = "t-", "t-kernel8.img", "t-bcm2710-rpi-3-b.dtb", nil
				c.Overlays, c.CmdlineFile, c.Cmdline = []string{"overlays/x.dtbo"}, "t-cmdline.txt", "t"
			}), warns: "t-overlays/README is missing"},
		{name: "overlays README missing", card: base.with("A/overlays/README", "-", "overlays/disable-bt.dtbo", ""),
			want: change(slotA, func(c *Choice) { c.Overlays = []string{"overlays/disable-bt.dtbo"} }), warns: "A/overlays/README is missing"},
		{name: "overlay_prefix", card: base.with("A/dtb/o/README", "", "A/dtb/o/x.dtbo", "", "A/dtb/o/y.dtbo", "", "config.txt", config[:strings.Index(config, "dtov")]+"overlay_prefix=dtb/o/\ndtoverlay=y,param=1\ndtoverlay=\ndtparam=audio=on\ndtoverlay=x:old=2\n"),
			want: change(slotA, func(c *Choice) { c.Overlays = []string{"A/dtb/o/y.dtbo", "A/dtb/o/x.dtbo"} })},
		{name: "overlay missing", card: base.with("A/overlays/disable-bt.dtbo", "-"),
			want: change(slotA, func(c *Choice) { c.Overlays = nil }), warns: "passes it over"},
		{name: "initramfs missing", card: base.with("A/initramfs", "-"),
			want: change(slotA, func(c *Choice) { c.Initramfs = nil }), warns: "without any initramfs"},
		{name: "two initramfs", card: base.with("A/more", "", "config.txt", config+"initramfs initramfs,more followkernel\n"),
			want: change(slotA, func(c *Choice) { c.Initramfs = []string{"A/initramfs", "A/more"} })},
		{name: "auto_initramfs", card: base.with("A/initramfs8", "", "config.txt", config+"auto_initramfs=1\n"),
			want: change(slotA, func(c *Choice) { c.Initramfs = []string{"A/initramfs8"} })},
		{name: "command line from outside the prefix", card: base.with("A/cmdline.txt", "-", "cmdline.txt", "shared\n"),
			want: change(slotA, func(c *Choice) { c.CmdlineFile, c.Cmdline = "cmdline.txt", "shared" }), warns: "comes from cmdline.txt"},
		{name: "no command line", card: base.with("A/cmdline.txt", "-"),
			want: change(slotA, func(c *Choice) { c.CmdlineFile, c.Cmdline = "", "" }), warns: "no command line"},
		{name: "command line of two lines", card: base.with("A/cmdline.txt", "one\r\ntwo\n"),
			want: change(slotA, func(c *Choice) { c.Cmdline = "one" }), warns: "only the first"},
		{name: "no config.txt", card: bare,
			want:  Choice{Start: "start.elf", Fixup: "fixup.dat", Kernel: "kernel7.img", DeviceTree: "bcm2710-rpi-3-b.dtb", CmdlineFile: "cmdline.txt", Cmdline: "x"},
			warns: "defaults"},
		{name: "kernel name sets the mode", card: bare.with("config.txt", "kernel=kernel8.img", "kernel8.img", ""),
			want: Choice{Start: "start.elf", Fixup: "fixup.dat", ConfigFile: "config.txt", Kernel: "kernel8.img", Arm64: true, DeviceTree: "bcm2710-rpi-3-b.dtb", CmdlineFile: "cmdline.txt", Cmdline: "x"}},
		{name: "fixup missing", card: base.with("fixup_cd.dat", "-"),
			want: change(slotA, func(c *Choice) { c.Fixup = "" }), warns: "fixup_cd.dat is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decide(tt.card.fs(), tt.tryboot)
			if err != nil {
				t.Fatal(err)
			}
			warned := slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.Contains(w, tt.warns) })
			if tt.warns == "" && len(got.Warnings) > 0 || tt.warns != "" && !warned {
				t.Errorf("Warnings = %q; want %q", got.Warnings, tt.warns)
			}
			got.Warnings, got.Settings = nil, Settings{}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Decide() =\n%+v; want\n%+v", got, tt.want)
			}
		})
	}
}

func TestDecideFirmware(t *testing.T) {
	all := card{"bootcode.bin": "", "kernel8.img": "", "bcm2710-rpi-3-b.dtb": ""}
	for _, v := range []string{"", "_x", "_cd", "_db"} {
		all["start"+v+".elf"], all["fixup"+v+".dat"] = "", ""
	}
	tests := []struct{ config, include, start, fixup string }{
		{"", "", "start.elf", "fixup.dat"},
		{"gpu_mem=16", "", "start_cd.elf", "fixup_cd.dat"},
		{"gpu_mem=64", "", "start.elf", "fixup.dat"},
		{"gpu_mem=64\ngpu_mem_512=16", "", "start_cd.elf", "fixup_cd.dat"},
		{"gpu_mem=16\ngpu_mem_512=64\ngpu_mem_1024=16", "", "start.elf", "fixup.dat"},
		{"start_x=1", "", "start_x.elf", "fixup_x.dat"},
		{"start_debug=1", "", "start_db.elf", "fixup_db.dat"},
		{"start_file=start_x.elf\nfixup_file=fixup_x.dat\ngpu_mem=16", "", "start_x.elf", "fixup_x.dat"},
		{"include more.txt", "gpu_mem=16", "start.elf", "fixup.dat"}, // bootcode.bin does not include
		{"[pi4]\ngpu_mem=16", "", "start.elf", "fixup.dat"},
		{"[pi3+]\ngpu_mem=16", "", "start_cd.elf", "fixup_cd.dat"},
	}
	for _, tt := range tests {
		c := all.with("config.txt", "kernel=kernel8.img\n"+tt.config, "more.txt", tt.include)
		got, err := Decide(c.fs(), false)
		if err != nil || got.Start != tt.start || got.Fixup != tt.fixup {
			t.Errorf("%q: %s and %s, %v; want %s and %s", tt.config, got.Start, got.Fixup, err, tt.start, tt.fixup)
		}
	}
}

func TestDecideCannotBoot(t *testing.T) {
	base := twoSlots()
	tests := []struct {
		name    string
		card    card
		tryboot bool
		missing string
		says    string
	}{
		{"empty", card{}, false, "bootcode.bin", "dark"},
		{"no start file", base.with("start_cd.elf", "-"), false, "start_cd.elf", "four short flashes"},
		{"no kernel at all", base.with("A/kernel8.img", "-"), false, "kernel8.img", "since A/kernel8.img is missing"},
		{"no tree at all", base.with("config.txt", "arm_64bit=1", "kernel8.img", ""), false, "bcm2710-rpi-3-a-plus.dtb", "rainbow"},
		{"tryboot.txt damaged", base.with("tryboot.txt", "\x00\xff\x13garbage\n[pi3\n=\n==\n"), true, "kernel7.img", "seven short flashes"},
		{"tryboot.txt empty", base.with("tryboot.txt", ""), true, "kernel7.img", "seven short flashes"},
		{"trial slot half written", base.with("B/kernel8.img", "-"), true, "kernel8.img", "B/kernel8.img"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decide(tt.card.fs(), tt.tryboot)
			var halt *NoBootError
			if !errors.As(err, &halt) || halt.Missing != tt.missing || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Decide() = %v; want %s missing, and %q", err, tt.missing, tt.says)
			}
		})
	}
}

func TestDecideStaysInside(t *testing.T) {
	base := twoSlots()
	for _, line := range []string{"kernel=../x", "os_prefix=../", "start_file=a/../../x", "cmdline=/../x", "include ../x", "dtoverlay=../../x", "initramfs ../x followkernel", "overlay_prefix=../", "device_tree=../x"} {
		c := base.with("config.txt", base["config.txt"]+line+"\n")
		if got, err := Decide(c.fs(), false); !errors.Is(err, ErrOutside) {
			t.Errorf("%q: Decide() = %+v, %v; want %v", line, got, err, ErrOutside)
		}
	}
}

// A card that cannot be read is no board that does not boot.
func TestDecideReportsReadErrors(t *testing.T) {
	broken := errors.New("broken card")
	for _, name := range []string{"bootcode.bin", "config.txt", "start_cd.elf", "A/kernel8.img", "A/overlays/README", "A/cmdline.txt", "A/initramfs"} {
		_, err := Decide(brokenFS{twoSlots().fs(), name, broken}, false)
		if !errors.Is(err, broken) {
			t.Errorf("%s unreadable: Decide() = %v; want %v", name, err, broken)
		}
	}
}

type brokenFS struct {
	fs.FS
	name string
	err  error
}

func (b brokenFS) Open(name string) (fs.File, error) {
	if name == b.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: b.err}
	}
	return b.FS.Open(name)
}
