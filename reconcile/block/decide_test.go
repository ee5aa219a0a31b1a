package block

import (
	"strings"
	"testing"

	"machined/hal"
)

const (
	mib      = 1 << 20
	dataType = "0fc63daf-8483-4772-8e79-3d69d8477de4"
)

// gpt and mbr are disks with a table; part, boot and volume put partitions on
// them.
func gpt() hal.BlockDevice { return disk(hal.GPT) }
func mbr() hal.BlockDevice { return disk(hal.MBR) }

func disk(table hal.Table) hal.BlockDevice {
	return hal.BlockDevice{Name: "sda", Path: "/dev/sda", Disk: "sda", Size: 1024 * mib, Table: table}
}

func empty() hal.BlockDevice {
	d := disk(hal.NoTable)
	d.Blank = true
	return d
}

// part is a partition; fs "" makes it blank.
func part(number int, label, kind, fs, fsLabel string) hal.BlockDevice {
	n := string(rune('0' + number))
	return hal.BlockDevice{
		Name: "sda" + n, Path: "/dev/sda" + n, Disk: "sda", Number: number, Start: int64(number) * 64 * mib, Size: 64 * mib,
		Label: label, Type: kind, FS: fs, FSLabel: fsLabel, Blank: fs == "",
	}
}

func efi() hal.BlockDevice     { return part(1, "EFI", efiSystem, "vfat", "BOOT") }
func mbrBoot() hal.BlockDevice { return part(1, "", "0c", "vfat", "BOOT") }

func gptVolume(number int, label string) hal.BlockDevice {
	return part(number, label, dataType, "ext4", label)
}

func mbrVolume(number int, label string) hal.BlockDevice {
	return part(number, "", mbrLinux, "ext4", label)
}

func with(d hal.BlockDevice, change func(*hal.BlockDevice)) hal.BlockDevice {
	change(&d)
	return d
}

func readOnly(d *hal.BlockDevice)   { d.ReadOnly = true }
func unreadable(d *hal.BlockDevice) { d.Trouble, d.Table = "it does not answer", hal.NoTable }
func damaged(d *hal.BlockDevice)    { d.Trouble = "both copies of the GPT are damaged" }
func unknown(d *hal.BlockDevice)    { d.Blank = false }

func TestDecide(t *testing.T) {
	type disks = []hal.BlockDevice
	bare := with(empty(), func(d *hal.BlockDevice) { d.Blank, d.FS, d.FSLabel = false, "xfs", "data" })
	state, ephemeral := gptVolume(2, State), gptVolume(3, Ephemeral)
	foreign := part(4, "Windows", dataType, "ntfs", "")
	for _, c := range []struct {
		name   string
		disk   hal.BlockDevice
		parts  disks
		booted bool // from the first partition
		wipe   bool
		want   Action
		found  string // the volumes that are there
		why    string
	}{
		{"exact layout of an image", gpt(), disks{efi(), state, ephemeral}, true, false, Skip, "STATE EPHEMERAL", ""},
		{"exact layout of a Pi", mbr(), disks{mbrBoot(), mbrVolume(2, State), mbrVolume(3, Ephemeral)}, true, false, Skip, "STATE EPHEMERAL", ""},
		{"exact layout of a second disk", gpt(), disks{gptVolume(1, State), gptVolume(2, Ephemeral)}, false, false, Skip, "STATE EPHEMERAL", ""},
		{"exact layout, consent left in the config", gpt(), disks{gptVolume(1, State), gptVolume(2, Ephemeral)}, false, true, Skip, "STATE EPHEMERAL", ""},
		{"both volumes, and more", gpt(), disks{state, ephemeral, foreign}, false, true, Skip, "STATE EPHEMERAL", ""},
		{"both volumes, read-only", with(gpt(), readOnly), disks{state, ephemeral}, false, false, Skip, "STATE EPHEMERAL", ""},

		{"empty disk", empty(), nil, false, false, Fresh, "", ""},
		{"empty disk, consent for nothing", empty(), nil, false, true, Fresh, "", ""},
		{"empty table", gpt(), nil, false, false, Complete, "", ""},
		{"EFI alone", gpt(), disks{efi()}, true, false, Complete, "", ""},
		{"EFI alone on another disk", gpt(), disks{efi()}, false, false, Complete, "", ""},
		{"boot partition alone", mbr(), disks{mbrBoot()}, true, false, Complete, "", ""},
		{"STATE without EPHEMERAL", gpt(), disks{efi(), state}, true, false, Complete, "STATE", ""},
		{"EPHEMERAL without STATE", mbr(), disks{mbrBoot(), mbrVolume(3, Ephemeral)}, true, false, Complete, "EPHEMERAL", ""},
		{"a blank partition of ours", gpt(), disks{efi(), part(2, State, dataType, "", "")}, true, false, Complete, "", ""},
		{"a blank partition in STATE's place", mbr(), disks{mbrBoot(), part(2, "", mbrLinux, "", "")}, true, false, Complete, "", ""},

		{"foreign GPT", gpt(), disks{foreign}, false, false, Refuse, "", `ntfs "Windows" (/dev/sda4); set install.wipe: true`},
		{"foreign GPT, given up", gpt(), disks{foreign}, false, true, Wipe, "", ""},
		{"foreign partition beside STATE", gpt(), disks{state, foreign}, false, false, Refuse, "STATE", `ntfs "Windows"`},
		{"foreign partition beside STATE, given up", gpt(), disks{state, foreign}, false, true, Refuse, "STATE", "beside a volume of the node"},
		{"two foreign partitions", gpt(), disks{part(1, "a", "x", "xfs", ""), part(2, "", "y", "", "")}, false, false, Refuse, "", `xfs "a" (/dev/sda1), an empty partition (/dev/sda2)`},
		{"foreign MBR", mbr(), disks{part(1, "", "0c", "vfat", "STICK")}, false, false, Refuse, "", "an MBR partition table"},
		{"foreign MBR, given up", mbr(), disks{part(1, "", "0c", "vfat", "STICK")}, false, true, Wipe, "", ""},
		{"empty MBR", mbr(), nil, false, false, Refuse, "", "an MBR partition table"},
		{"a file system and no table", bare, nil, false, false, Refuse, "", `xfs "data" (/dev/sda)`},
		{"a file system and no table, given up", bare, nil, false, true, Wipe, "", ""},
		{"unknown data", with(empty(), unknown), nil, false, false, Refuse, "", "unknown data (/dev/sda)"},
		{"LUKS in our place", gpt(), disks{part(1, State, dataType, "crypto_LUKS", "")}, false, false, Refuse, "", `crypto_LUKS "STATE"`},
		{"XFS in our place, as another system has it", gpt(), disks{part(1, State, dataType, "xfs", "STATE")}, false, true, Wipe, "", ""},
		{"unknown data in our place", gpt(), disks{efi(), with(part(2, State, dataType, "", ""), unknown)}, true, false, Refuse, "", `unknown data "STATE"`},
		{"our label on an MBR, in no place of ours", mbr(), disks{mbrBoot(), mbrVolume(3, State)}, true, false, Refuse, "", `ext4 "STATE" (/dev/sda3)`},
		{"another's ext4 in our place of an MBR", mbr(), disks{mbrBoot(), mbrVolume(2, "rootfs")}, true, false, Refuse, "", `ext4 "rootfs" (/dev/sda2)`},
		{"our volumes on an MBR that is not booted from", mbr(), disks{mbrBoot(), mbrVolume(2, State)}, false, false, Refuse, "", "an MBR partition table"},

		{"boot disk with more, given up", gpt(), disks{efi(), foreign}, true, true, Refuse, "", "never wiped"},
		{"boot disk of a Pi with more, given up", mbr(), disks{mbrBoot(), part(2, "", "07", "ntfs", "")}, true, true, Refuse, "", "never wiped"},
		{"two STATEs", gpt(), disks{gptVolume(1, State), gptVolume(2, State)}, false, false, Refuse, "", "two partitions labelled STATE"},
		{"two STATEs, the first of them blank", gpt(), disks{part(1, State, dataType, "", ""), gptVolume(2, State)}, false, false, Refuse, "", "two partitions labelled STATE"},
		{"two STATEs, neither with a file system", gpt(), disks{part(1, State, dataType, "", ""), part(2, State, dataType, "", "")}, false, false, Refuse, "", "two partitions labelled STATE"},
		{"two EPHEMERALs, given up", gpt(), disks{gptVolume(1, Ephemeral), gptVolume(2, Ephemeral)}, false, true, Refuse, "", "two partitions labelled EPHEMERAL"},
		{"read-only and empty", with(empty(), readOnly), nil, false, false, Refuse, "", "read-only"},
		{"read-only with STATE", with(gpt(), readOnly), disks{state}, false, true, Refuse, "STATE", "read-only"},
		{"unreadable", with(gpt(), unreadable), nil, false, false, Refuse, "", "cannot be read: it does not answer"},
		{"unreadable, given up", with(gpt(), unreadable), nil, false, true, Refuse, "", "cannot be read"},
		{"damaged table", with(gpt(), damaged), nil, false, false, Refuse, "", "a damaged partition table (both copies of the GPT are damaged); set install.wipe: true"},
		{"damaged table, given up, as after a wipe that was cut", with(gpt(), damaged), nil, false, true, Wipe, "", ""},
		{"damaged table of the boot disk, given up", with(gpt(), damaged), disks{efi()}, true, true, Refuse, "", "never wiped"},
		{"unreadable partition", gpt(), disks{with(gptVolume(1, "x"), unreadable)}, false, false, Refuse, "", "something unreadable"},
		{"unreadable STATE", gpt(), disks{with(part(2, State, dataType, "", ""), unreadable)}, false, false, Refuse, "", "something unreadable"},
	} {
		boot := ""
		if c.booted {
			boot = c.parts[0].Path
		}
		got := Decide(c.disk, c.parts, boot, c.wipe)
		var found []string
		for i, f := range got.Found {
			if f.Name != "" {
				found = append(found, name(i))
			}
		}
		if got.Action != c.want || strings.Join(found, " ") != c.found || !strings.Contains(got.Why, c.why) || (got.Action == Refuse) != (got.Why != "") {
			t.Errorf("%s: Decide() = %d, %q, with %q; want %d, %q, with %q", c.name, got.Action, got.Why, found, c.want, c.why, c.found)
		}
	}
}

// FuzzDecide reads disks from bytes, a partition a byte, and checks what must
// hold for all of them.
func FuzzDecide(f *testing.F) {
	f.Add(uint8(1), true, true, []byte{0, 1, 2})
	f.Add(uint8(2), true, false, []byte{0, 11, 12})
	f.Add(uint8(0), false, true, []byte{})
	f.Add(uint8(1), false, true, []byte{5, 6, 7, 1})
	f.Fuzz(func(t *testing.T, kind uint8, booted, wipe bool, bytes []byte) {
		d, parts, foreign := fuzzed(kind, bytes)
		boot := ""
		if booted && len(parts) > 0 {
			boot = parts[0].Path
			foreign[0] = false
		}
		got := Decide(d, parts, boot, wipe)
		destroys := got.Action == Wipe
		if destroys && (!wipe || boot != "") {
			t.Errorf("Decide(%+v, %+v, %q, %v) wipes", d, parts, boot, wipe)
		}
		for i, strange := range foreign {
			if strange && !wipe && got.Action != Skip && got.Action != Refuse {
				t.Errorf("Decide(%+v, %+v, %q, %v) = %d; want it to leave %s alone", d, parts, boot, wipe, got.Action, parts[i].Path)
			}
		}
		for i, found := range got.Found {
			if found.Name != "" && (found.FS != "ext4" || found.Path == boot || d.Table == hal.GPT && found.Label != name(i)) {
				t.Errorf("Decide(%+v, %+v, %q, %v) takes %+v for %s", d, parts, boot, wipe, found, name(i))
			}
		}
		if again := Decide(d, parts, boot, wipe); again != got {
			t.Errorf("Decide(%+v, %+v) = %+v and then %+v", d, parts, got, again)
		}
	})
}

func fuzzed(kind uint8, bytes []byte) (d hal.BlockDevice, parts []hal.BlockDevice, foreign []bool) {
	d = disk(hal.Table(kind % 3))
	d.ReadOnly, d.Blank = kind&64 != 0, d.Table == hal.NoTable && kind&32 == 0
	if d.Table == hal.NoTable {
		return d, nil, nil
	}
	for i, b := range bytes[:min(len(bytes), 7)] {
		p := part(i+1, []string{"", State, Ephemeral, "data"}[b%4], []string{dataType, efiSystem, mbrLinux, "07"}[b/4%4],
			[]string{"", "ext4", "xfs", "vfat"}[b/16%4], []string{"", State, Ephemeral, "data"}[b/64])
		if d.Table == hal.MBR {
			p.Label = ""
		}
		ours := p.Label == State || p.Label == Ephemeral || p.Type == efiSystem
		if d.Table == hal.MBR {
			ours = p.Type == mbrLinux && (p.Number == 2 || p.Number == 3)
		}
		parts, foreign = append(parts, p), append(foreign, !ours || p.FS == "xfs" && p.Type != efiSystem)
	}
	return d, parts, foreign
}
