package volume

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"

	"machined/hal"
)

func TestProvisionAndFind(t *testing.T) {
	for _, c := range []struct {
		name      string
		size      int64
		write     func(*testing.T, *ramDisk)
		state     Extent
		ephemeral Extent
	}{
		{"GPT", 64 * mib, func(t *testing.T, d *ramDisk) { imageGPT(t, d, d.size) }, Extent{2, 5 * mib, 16 * mib}, Extent{3, 21 * mib, 42 * mib}},
		{"GPT, least", 38 * mib, func(t *testing.T, d *ramDisk) { imageGPT(t, d, d.size) }, Extent{2, 5 * mib, 16 * mib}, Extent{3, 21 * mib, 16 * mib}},
		{"GPT, large disk", 1 << 40, func(t *testing.T, d *ramDisk) { imageGPT(t, d, d.size) }, Extent{2, 5 * mib, 16 * mib}, Extent{3, 21 * mib, 1<<40 - 22*mib}},
		{"GPT made for a smaller disk", 64 * mib, func(t *testing.T, d *ramDisk) { imageGPT(t, d, 8*mib) }, Extent{2, 5 * mib, 16 * mib}, Extent{3, 21 * mib, 42 * mib}},
		{"GPT made for a larger disk", 64 * mib, func(t *testing.T, d *ramDisk) {
			larger := newRAMDisk(128 * mib)
			imageGPT(t, larger, larger.size)
			larger.size = d.size
			*d = *larger
		}, Extent{2, 5 * mib, 16 * mib}, Extent{3, 21 * mib, 42 * mib}},
		{"GPT with a third partition", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size, gptPart(3, "DATA", gpt.LinuxFilesystem, 6, 8))
		}, Extent{4, 8 * mib, 16 * mib}, Extent{5, 24 * mib, 39 * mib}},
		{"GPT with its last entry in use", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size, gptPart(128, "DATA", gpt.LinuxFilesystem, 6, 8))
		}, Extent{2, 8 * mib, 16 * mib}, Extent{3, 24 * mib, 39 * mib}},
		{"MBR", 64 * mib, func(t *testing.T, d *ramDisk) { imageMBR(t, d) }, Extent{2, 5 * mib, 16 * mib}, Extent{3, 21 * mib, 43 * mib}},
		{"MBR, least", 37 * mib, func(t *testing.T, d *ramDisk) { imageMBR(t, d) }, Extent{2, 5 * mib, 16 * mib}, Extent{3, 21 * mib, 16 * mib}},
		{"MBR, disk beyond its reach", 4 << 40, func(t *testing.T, d *ramDisk) { imageMBR(t, d) }, Extent{2, 5 * mib, 16 * mib}, Extent{3, 21 * mib, 2<<40 - 22*mib}},
		{"blank", 64 * mib, func(*testing.T, *ramDisk) {}, Extent{1, 1 * mib, 16 * mib}, Extent{2, 17 * mib, 46 * mib}},
		{"erased flash", 64 * mib, func(_ *testing.T, d *ramDisk) { d.fill = 0xff }, Extent{1, 1 * mib, 16 * mib}, Extent{2, 17 * mib, 46 * mib}},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := newRAMDisk(c.size)
			c.write(t, disk)
			if e, err := Find(disk, c.size, "STATE"); !errors.Is(err, hal.ErrNotFound) {
				t.Errorf("Find before Provision = %+v, %v; want %v", e, err, hal.ErrNotFound)
			}
			p, k := newProvisioner(disk, simpleTemplates())
			request := hal.Provision{Disk: ramPath, Volumes: []hal.NewVolume{state, ephemeral}}
			if err := p.Provision(request); err != nil {
				t.Fatalf("Provision = %v; want success", err)
			}
			if want := []Extent{c.state, c.ephemeral}; !slices.Equal(k.told, want) {
				t.Errorf("the kernel was told of %+v; want %+v", k.told, want)
			}
			// A second boot finds it, and must not touch what is in it by now.
			disk.record = nil
			p, k = newProvisioner(disk, nil)
			if err := p.Provision(request); err != nil || disk.writes() != 0 {
				t.Errorf("Provision again = %v with %d writes; want success with none", err, disk.writes())
			}
			if want := []Extent{c.state, c.ephemeral}; !slices.Equal(k.told, want) {
				t.Errorf("the kernel was told again of %+v; want %+v: it may have missed it", k.told, want)
			}
			if got := mustFind(t, disk, "STATE"); got != c.state {
				t.Errorf("Find(STATE) = %+v; want %+v", got, c.state)
			}
			if got := mustFind(t, disk, "EPHEMERAL"); got != c.ephemeral {
				t.Errorf("Find(EPHEMERAL) = %+v; want %+v", got, c.ephemeral)
			}
			checkContents(t, disk, c.state)
			checkContents(t, disk, c.ephemeral)
		})
	}
}

// checkContents checks that a volume holds the simple template, whose identity
// is its own.
func checkContents(t *testing.T, disk *ramDisk, e Extent) {
	t.Helper()
	want := simpleContents()
	got := readAt(t, disk, e.Start, int64(len(want)))
	if !bytes.Equal(got[:super], want[:super]) || !bytes.Equal(got[2*super:], want[2*super:]) {
		t.Fatalf("the volume at %+v does not hold the template", e)
	}
	if id := got[superUUID : superUUID+16]; bytes.Equal(id, make([]byte, 16)) || id[6]>>4 != 4 {
		t.Errorf("the volume at %+v has the UUID %x; want a random one", e, id)
	}
}

func TestOneVolumeAfterTheOther(t *testing.T) {
	for name, write := range map[string]func(*testing.T, *ramDisk){
		"GPT": func(t *testing.T, d *ramDisk) { imageGPT(t, d, d.size) }, "MBR": func(t *testing.T, d *ramDisk) { imageMBR(t, d) },
	} {
		disk := newRAMDisk(64 * mib)
		write(t, disk)
		mustProvision(t, disk, simpleTemplates(), state)
		before := mustFind(t, disk, "STATE")
		first := readAt(t, disk, before.Start, 4096)
		mustProvision(t, disk, simpleTemplates(), state, ephemeral)
		if got := mustFind(t, disk, "STATE"); got != before || !bytes.Equal(readAt(t, disk, got.Start, 4096), first) {
			t.Errorf("%s: STATE is %+v after EPHEMERAL was made; want %+v, untouched", name, got, before)
		}
		if got := mustFind(t, disk, "EPHEMERAL"); got.Number != 3 || got.Start != 21*mib {
			t.Errorf("%s: EPHEMERAL is %+v; want number 3 at 21 MiB", name, got)
		}
		checkBoot(t, disk)
	}
}

func TestWipe(t *testing.T) {
	for name, write := range map[string]func(*testing.T, *ramDisk){
		"full of something": func(_ *testing.T, d *ramDisk) { d.fill = 0xa5 },
		"GPT":               func(t *testing.T, d *ramDisk) { imageGPT(t, d, d.size) },
		"MBR":               func(t *testing.T, d *ramDisk) { imageMBR(t, d) },
		"our own":           func(t *testing.T, d *ramDisk) { mustProvision(t, d, simpleTemplates(), state, ephemeral) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := newRAMDisk(64 * mib)
			write(t, disk)
			disk.rereads = 0
			if err := provision(disk, simpleTemplates(), true, state, ephemeral); err != nil {
				t.Fatalf("Provision(Wipe) = %v; want success", err)
			}
			table := readTable(t, disk)
			if table.Kind != hal.GPT || len(table.Partitions) != 2 || table.Backup == nil || disk.rereads != 1 {
				t.Errorf("the table is %+v, and the kernel was told %d times; want a GPT with two partitions, and once", table, disk.rereads)
			}
			checkContents(t, disk, mustFind(t, disk, "STATE"))
			checkContents(t, disk, mustFind(t, disk, "EPHEMERAL"))
		})
	}
}

// TestRefuses covers the disks that are left as they are.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int64
		write func(*testing.T, *ramDisk)
		want  error
	}{
		{"GPT, too small", 37 * mib, func(t *testing.T, d *ramDisk) { imageGPT(t, d, d.size) }, hal.ErrNoSpace},
		{"GPT made for a larger disk", 16 * mib, func(t *testing.T, d *ramDisk) {
			larger := newRAMDisk(64 * mib)
			imageGPT(t, larger, larger.size)
			larger.size = d.size
			*d = *larger
		}, hal.ErrNoSpace},
		{"MBR, too small", 36 * mib, func(t *testing.T, d *ramDisk) { imageMBR(t, d) }, hal.ErrNoSpace},
		{"MBR, foreign partition 2", 64 * mib, func(t *testing.T, d *ramDisk) { imageMBR(t, d, mbrPart(2, mbr.NTFS, 5, 6)) }, hal.ErrInvalid},
		{"MBR, foreign partition 3", 64 * mib, func(t *testing.T, d *ramDisk) { imageMBR(t, d, &mbr.Partition{}, mbrPart(3, mbr.Fat32LBA, 5, 6)) }, hal.ErrInvalid},
		{"MBR, partition 2 holds something", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageMBR(t, d, mbrPart(2, mbr.Linux, 5, 30))
			d.apply(5*mib, []byte("XFSB"))
		}, hal.ErrInvalid},
		{"MBR, STATE in another place", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageMBR(t, d, mbrPart(2, mbr.Linux, 5, 21), &mbr.Partition{}, mbrPart(4, mbr.Linux, 21, 37))
			d.apply(5*mib, labelled(t, "STATE"))
			d.apply(21*mib, labelled(t, "STATE"))
		}, hal.ErrInvalid},
		{"MBR without partitions", 64 * mib, func(t *testing.T, d *ramDisk) {
			if err := (&mbr.Table{}).Write(d, d.size); err != nil {
				t.Fatal(err)
			}
		}, hal.ErrInvalid},
		{"GPT with two STATEs", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size, gptPart(2, "STATE", gpt.LinuxFilesystem, 5, 21), gptPart(3, "STATE", gpt.LinuxFilesystem, 21, 37))
		}, hal.ErrInvalid},
		{"GPT, STATE of another type", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size, gptPart(2, "STATE", gpt.LinuxSwap, 5, 21))
		}, hal.ErrInvalid},
		{"GPT, STATE holds something unknown", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size, gptPart(2, "STATE", gpt.LinuxFilesystem, 5, 21))
			d.apply(5*mib+777, []byte{1})
		}, hal.ErrInvalid},
		{"GPT, STATE is called otherwise inside", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size, gptPart(2, "STATE", gpt.LinuxFilesystem, 5, 21))
			d.apply(5*mib, labelled(t, "OTHER"))
		}, hal.ErrInvalid},
		{"GPT, STATE is too small", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size, gptPart(2, "STATE", gpt.LinuxFilesystem, 5, 6))
		}, hal.ErrNoSpace},
		{"hybrid", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size)
			d.apply(446+16, []byte("\x80\x00\x00\x00\x0c\x00\x00\x00\x00\x08\x00\x00\x00\x20\x00\x00"))
		}, hal.ErrInvalid},
		{"GPT without its protective MBR", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size)
			d.apply(0, make([]byte, 512))
		}, hal.ErrInvalid},
		{"no table, but something", 64 * mib, func(_ *testing.T, d *ramDisk) { d.apply(20_000, []byte{1}) }, hal.ErrInvalid},
		{"no table, but something at the end", 64 * mib, func(_ *testing.T, d *ramDisk) { d.apply(63*mib+512, []byte{1}) }, hal.ErrInvalid},
		{"a file system on the whole disk", 64 * mib, func(t *testing.T, d *ramDisk) { d.apply(0, labelled(t, "STATE")) }, hal.ErrInvalid},
		{"blank and too small", 8 * mib, func(*testing.T, *ramDisk) {}, hal.ErrNoSpace},
		// What is left then is the protective MBR. On a disk that is larger
		// than it says, or whose sectors have 4,096 bytes, there seemed to be
		// room behind its entry, in the midst of the GPT's partitions.
		{"GPT with both copies broken", 64 * mib, func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, 16*mib)
			for _, lba := range []int64{1, 16*mib/sectorSize - 1} {
				d.apply(lba*sectorSize, make([]byte, sectorSize))
			}
		}, hal.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := newRAMDisk(c.size)
			c.write(t, disk)
			disk.record = nil
			err := provision(disk, simpleTemplates(), false, state, ephemeral)
			if !errors.Is(err, c.want) {
				t.Errorf("Provision = %v; want %v", err, c.want)
			}
			t.Log(err)
			if disk.writes() != 0 {
				t.Errorf("the disk was written %d times; want it untouched", disk.writes())
			}
		})
	}
}

// labelled is the start of an ext4.
func labelled(t *testing.T, label string) []byte {
	t.Helper()
	b := simpleContents()
	if err := relabel(b, label, [16]byte{1}, [16]byte{2}); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWipeNeedsRoom keeps what a disk holds where the volumes would not fit.
func TestWipeNeedsRoom(t *testing.T) {
	for _, size := range []int64{1000, 8 * mib, 33 * mib} {
		disk := newRAMDisk(size)
		disk.fill = 0xa5
		if err := provision(disk, simpleTemplates(), true, state, ephemeral); !errors.Is(err, hal.ErrNoSpace) || disk.writes() != 0 {
			t.Errorf("Provision(Wipe) of %d bytes = %v with %d writes; want %v with none", size, err, disk.writes(), hal.ErrNoSpace)
		}
	}
	disk := newRAMDisk(34 * mib) // 1 MiB before, the volumes, and 1 MiB behind
	disk.fill = 0xa5
	if err := provision(disk, simpleTemplates(), true, state, ephemeral); err != nil {
		t.Errorf("Provision(Wipe) of 34 MiB = %v; want success", err)
	}
}

func TestBadVolumes(t *testing.T) {
	for _, volumes := range [][]hal.NewVolume{
		{{Label: ""}}, {{Label: "seventeen letters"}}, {{Label: "a/b"}}, {{Label: "a", Size: -1}}, {{Label: "a", Size: mib}},
		{{Label: "a"}, {Label: "b", Size: 16 * mib}}, {{Label: "a", Size: 16 * mib}, {Label: "a"}},
	} {
		disk := newRAMDisk(64 * mib)
		if err := provision(disk, simpleTemplates(), true, volumes...); !errors.Is(err, hal.ErrInvalid) || disk.writes() != 0 {
			t.Errorf("Provision(%+v) = %v with %d writes; want %v with none", volumes, err, disk.writes(), hal.ErrInvalid)
		}
	}
	disk := newRAMDisk(64 * mib)
	imageMBR(t, disk)
	if err := provision(disk, simpleTemplates(), false, hal.NewVolume{Label: "DATA"}); !errors.Is(err, hal.ErrInvalid) {
		t.Errorf("Provision of a volume without a place in an MBR = %v; want %v", err, hal.ErrInvalid)
	}
}

// TestFileSystemIsMissing covers a partition that some other tool made, and
// was cut before it made a file system.
func TestFileSystemIsMissing(t *testing.T) {
	for name, write := range map[string]func(*testing.T, *ramDisk){
		"GPT": func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size, gptPart(2, "STATE", gpt.LinuxFilesystem, 5, 30), gptPart(3, "EPHEMERAL", gpt.LinuxFilesystem, 30, 60))
		},
		"MBR": func(t *testing.T, d *ramDisk) {
			imageMBR(t, d, mbrPart(2, mbr.Linux, 5, 30), mbrPart(3, mbr.Linux, 30, 60))
		},
	} {
		disk := newRAMDisk(64 * mib)
		write(t, disk)
		if _, err := Find(disk, disk.size, "STATE"); !errors.Is(err, hal.ErrNotFound) {
			t.Errorf("%s: Find = %v; want %v", name, err, hal.ErrNotFound)
		}
		mustProvision(t, disk, simpleTemplates(), state, ephemeral)
		for i, label := range []string{"STATE", "EPHEMERAL"} {
			if e := mustFind(t, disk, label); e.Number != i+2 {
				t.Errorf("%s: Find(%s) = %+v; want number %d", name, label, e, i+2)
			}
			checkContents(t, disk, mustFind(t, disk, label))
		}
		checkBoot(t, disk)
	}
}

// TestBadTemplates checks that a template which is not whole makes no
// partition, and that one which is too large writes nothing outside of it.
func TestBadTemplates(t *testing.T) {
	whole := packed(simpleContents())
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	noSeed, wrongSum := simpleContents(), simpleContents()
	clear(noSeed[superIncompat : superIncompat+4])
	wrongSum[superLabel] ^= 1
	for name, template := range map[string][]byte{
		"absent": nil, "empty file": {}, "not compressed": []byte("state"), "cut short": whole[:len(whole)/2], "cut at its end": whole[:len(whole)-1],
		"wrong checksum": flipped, "no ext4": packed(make([]byte, 70_000)), "too short": packed(make([]byte, 2000)),
		"no seed for checksums": packed(noSeed), "wrong checksum inside": packed(wrongSum), "too large": packed(append(simpleContents(), make([]byte, 9*mib)...)),
	} {
		t.Run(name, func(t *testing.T) {
			disk := newRAMDisk(64 * mib)
			imageGPT(t, disk, disk.size)
			disk.record = nil
			made := templates{smallTemplate: template}
			if name == "absent" {
				made = nil
			}
			if err := provision(disk, made, false, state); err == nil {
				t.Error("Provision succeeded; want an error")
			}
			for _, o := range disk.record {
				if o.data != nil && (o.off < 5*mib || o.off+int64(len(o.data)) > 21*mib) {
					t.Errorf("bytes %d to %d were written; want none outside of 5 to 21 MiB", o.off, o.off+int64(len(o.data)))
				}
			}
			if e, err := Find(disk, disk.size, "STATE"); !errors.Is(err, hal.ErrNotFound) {
				t.Errorf("Find afterwards = %+v, %v; want %v", e, err, hal.ErrNotFound)
			}
		})
	}
}

// TestKernelRefuses checks that a kernel which could not be told is told again.
func TestKernelRefuses(t *testing.T) {
	disk := newRAMDisk(64 * mib)
	imageGPT(t, disk, disk.size)
	p, k := newProvisioner(disk, simpleTemplates())
	k.err = errors.New("busy")
	request := hal.Provision{Disk: ramPath, Volumes: []hal.NewVolume{state}}
	if err := p.Provision(request); !errors.Is(err, k.err) {
		t.Errorf("Provision = %v; want %v", err, k.err)
	}
	k.err, k.told = nil, nil
	if err := p.Provision(request); err != nil || len(k.told) != 1 {
		t.Errorf("Provision again = %v, and the kernel was told of %v; want success, and STATE", err, k.told)
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if _, _, err := Open(path); !errors.Is(err, hal.ErrNoDevice) {
		t.Errorf("Open of nothing = %v; want %v", err, hal.ErrNoDevice)
	}
	p := NewProvisioner(&kernel{}, "")
	if err := p.Provision(hal.Provision{Disk: path}); !errors.Is(err, hal.ErrNoDevice) {
		t.Errorf("Provision of nothing = %v; want %v", err, hal.ErrNoDevice)
	}
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	f, size, err := Open(path)
	if err != nil || size != 4096 {
		t.Fatalf("Open = %d bytes, %v; want 4096", size, err)
	}
	f.Close()
}
