package volume

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"

	"machined/hal"
)

// crashCase is a disk before a first boot.
type crashCase struct {
	name  string
	write func(*testing.T, *ramDisk)
	wipe  bool
	boot  bool // it has a boot partition
}

func crashCases() []crashCase {
	return []crashCase{
		{name: "GPT", write: func(t *testing.T, d *ramDisk) { imageGPT(t, d, d.size) }, boot: true},
		{name: "GPT made for a smaller disk", write: func(t *testing.T, d *ramDisk) { imageGPT(t, d, 8*mib) }, boot: true},
		{name: "GPT over remains", write: func(t *testing.T, d *ramDisk) { d.fill = 0xa5; imageGPT(t, d, d.size) }, boot: true},
		{name: "GPT with partitions but no file systems", write: func(t *testing.T, d *ramDisk) {
			imageGPT(t, d, d.size, gptPart(2, "STATE", gpt.LinuxFilesystem, 5, 30), gptPart(3, "EPHEMERAL", gpt.LinuxFilesystem, 30, 60))
		}, boot: true},
		{name: "MBR", write: func(t *testing.T, d *ramDisk) { imageMBR(t, d) }, boot: true},
		{name: "MBR over remains", write: func(t *testing.T, d *ramDisk) { d.fill = 0xa5; imageMBR(t, d) }, boot: true},
		{name: "MBR with partitions but no file systems", write: func(t *testing.T, d *ramDisk) {
			imageMBR(t, d, mbrPart(2, mbr.Linux, 5, 30), mbrPart(3, mbr.Linux, 30, 60))
		}, boot: true},
		{name: "blank", write: func(*testing.T, *ramDisk) {}},
		{name: "erased flash", write: func(_ *testing.T, d *ramDisk) { d.fill = 0xff }},
		{name: "wiped, full of something", write: func(_ *testing.T, d *ramDisk) { d.fill = 0xa5 }, wipe: true},
		{name: "wiped, GPT", write: func(t *testing.T, d *ramDisk) { d.fill = 0xa5; imageGPT(t, d, d.size) }, wipe: true},
		{name: "wiped, MBR", write: func(t *testing.T, d *ramDisk) { imageMBR(t, d) }, wipe: true},
	}
}

// TestPowerCuts cuts the power at every write. What had not been synced by
// then may have reached the disk or not, in any order, and a write may be torn
// between two sectors. The next boot must end up with both volumes whole, with
// the boot partition as it was, and with what had been complete before.
//
// It tells of a node whose STATE was empty for good: a crash between
// partitioning and mkfs left a partition without a file system, which every
// later boot took for a finished one.
func TestPowerCuts(t *testing.T) {
	made := simpleTemplates()
	for _, c := range crashCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := newRAMDisk(64 * mib)
			c.write(t, before)
			before.record = nil
			whole := before.clone()
			if err := provision(whole, made, c.wipe, state, ephemeral); err != nil {
				t.Fatal(err)
			}
			want := []Extent{mustFind(t, whole, "STATE"), mustFind(t, whole, "EPHEMERAL")}
			for cut := range len(whole.record) + 1 {
				if cut > 0 && len(whole.record[cut-1].data) == 64<<10 && cut%5 != 0 {
					continue // clearing a MiB is much of the same
				}
				for name, after := range outcomes(before, whole.record[:cut]) {
					t.Run(fmt.Sprintf("cut=%d/%s", cut, name), func(t *testing.T) {
						bootAfter(t, after, c, want, made)
					})
				}
			}
		})
	}
}

// bootAfter boots twice after a power cut.
func bootAfter(t *testing.T, disk *ramDisk, c crashCase, want []Extent, made templates) {
	if c.boot {
		checkBoot(t, disk)
		if table := readTable(t, disk); table.Damage != "" || len(table.Partitions) == 0 || table.Partitions[0].Start != bootStart {
			t.Fatalf("the table after the cut is %+v; want the boot partition in it", table)
		}
	}
	used := use(t, disk)
	wipe := c.wipe
	if c.wipe && len(used) > 0 {
		// Once there is a volume the disk is ours, and is not wiped again.
		wipe = false
	}
	for boot := range 2 {
		if err := provision(disk, made, wipe, state, ephemeral); err != nil {
			t.Fatalf("boot %d: Provision = %v", boot, err)
		}
		wipe = false
		for i, label := range []string{"STATE", "EPHEMERAL"} {
			if got := mustFind(t, disk, label); got != want[i] {
				t.Fatalf("boot %d: %s is %+v; want %+v", boot, label, got, want[i])
			}
			checkContents(t, disk, want[i])
		}
		if c.boot {
			checkBoot(t, disk)
		}
	}
	for _, u := range used {
		if got := readAt(t, disk, u.off, int64(len(u.data))); !bytes.Equal(got, u.data) {
			t.Fatalf("what was in a complete volume at %d is gone", u.off)
		}
	}
	if table := readTable(t, disk); table.Kind == hal.GPT && !wholeGPT(&opened{Disk: disk, size: disk.size, block: 512}, &table) {
		t.Errorf("the GPT is %+v; want both copies whole", table)
	}
}

// use writes something into the volumes that are complete, and returns what
// has to stay.
func use(t *testing.T, disk *ramDisk) []op {
	t.Helper()
	var used []op
	for _, label := range []string{"STATE", "EPHEMERAL"} {
		e, err := Find(disk, disk.size, label)
		if errors.Is(err, hal.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Fatalf("Find(%s) = %v; want it, or %v", label, err, hal.ErrNotFound)
		}
		checkContents(t, disk, e)
		disk.apply(e.Start+3*mib, []byte("a file of "+label))
		disk.apply(e.Start+e.Size-mib/2, []byte("a file of "+label))
		used = append(used,
			op{off: e.Start, data: readAt(t, disk, e.Start, 80<<10)},
			op{off: e.Start + 3*mib, data: []byte("a file of " + label)},
			op{off: e.Start + e.Size - mib/2, data: []byte("a file of " + label)})
	}
	return used
}

// outcomes returns what the disk may hold after the operations done, by what
// became of the writes since the last sync.
func outcomes(before *ramDisk, done []op) map[string]*ramDisk {
	synced := 0 // operations that are on the disk for sure
	for i, o := range done {
		if o.data == nil {
			synced = i + 1
		}
	}
	base := before.clone()
	for _, o := range done[:synced] {
		base.apply(o.off, o.data)
	}
	loose := done[synced:]
	out := map[string]*ramDisk{"nothing unsynced": base}
	if len(loose) == 0 {
		return out
	}
	all, last, torn := base.clone(), base.clone(), base.clone()
	for _, o := range loose {
		all.apply(o.off, o.data)
	}
	final := loose[len(loose)-1]
	last.apply(final.off, final.data)
	half := len(final.data) / 2 / sectorSize * sectorSize
	torn.apply(final.off, final.data[:half])
	out["all unsynced"], out["the last write alone"], out["half of the last write"] = all, last, torn
	if len(final.data) > sectorSize {
		tail := base.clone()
		tail.apply(final.off+int64(half), final.data[half:])
		one := base.clone()
		one.apply(final.off, final.data[:sectorSize])
		out["the other half of the last write"], out["one sector of the last write"] = tail, one
	}
	for seed := range uint64(3) {
		out[fmt.Sprint("some sectors, seed ", seed)] = someSectors(base, loose, seed)
	}
	return out
}

// someSectors lets each unsynced sector reach the disk or not, as the seed has
// it.
func someSectors(base *ramDisk, loose []op, seed uint64) *ramDisk {
	disk, random := base.clone(), rand.New(rand.NewPCG(seed, uint64(len(loose))))
	for _, o := range loose {
		for at := 0; at < len(o.data); at += sectorSize {
			if random.IntN(2) == 0 {
				disk.apply(o.off+int64(at), o.data[at:min(at+sectorSize, len(o.data))])
			}
		}
	}
	return disk
}

// TestPowerCutsByTools does the same with the real templates and fewer cuts,
// and has e2fsck, sgdisk and sfdisk judge what the next boot makes of it.
func TestPowerCutsByTools(t *testing.T) {
	if testing.Short() {
		t.Skip("runs hundreds of programs; left out by -short")
	}
	made := realTemplates(t)
	for _, c := range crashCases() {
		before := newRAMDisk(64 * mib)
		c.write(t, before)
		before.record = nil
		whole := before.clone()
		if err := provision(whole, made, c.wipe, state, ephemeral); err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 12 {
			cut := random.IntN(len(whole.record) + 1)
			for name, after := range outcomes(before, whole.record[:cut]) {
				if random.IntN(4) > 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s/cut=%d/%s", c.name, cut, name), func(t *testing.T) {
					if err := provision(after, made, c.wipe, state, ephemeral); err != nil {
						t.Fatal(err)
					}
					checkTable(t, after)
					checkExt4(t, after, "STATE")
					checkExt4(t, after, "EPHEMERAL")
				})
			}
		}
	}
}
