package signature_test

import (
	"os"
	"testing"

	"machined/hal"
	"machined/hal/signature"
)

const gptScript = "label: gpt\nlabel-id: 12345678-9ABC-4DEF-8123-456789ABCDEF\nsize=4MiB,type=U,name=EFI\nsize=2MiB,type=L,name=DATA\n"

// writeGPT has sfdisk put a table on disk, with partitions from 1 to 5 and
// from 5 to 7 MiB.
func writeGPT(t testing.TB, disk *ram) {
	t.Helper()
	writeTable(t, disk, gptScript)
}

func writeTable(t testing.TB, disk *ram, script string) {
	t.Helper()
	image := newImage(t, disk.size())
	tool(t, script, "sfdisk", "-q", image)
	b, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	copy(disk.b, b)
}

func TestDamagedGPT(t *testing.T) {
	const size, end = 16 * mib, 16*mib - 512
	whole := newRAM(size)
	writeGPT(t, whole)
	wipe := func(from, to int) func([]byte) { return func(b []byte) { clear(b[from:to]) } }
	flip := func(at int) func([]byte) { return func(b []byte) { b[at] ^= 1 } }
	both := func(a, b func([]byte)) func([]byte) { return func(d []byte) { a(d); b(d) } }
	for _, c := range []struct {
		name            string
		do              func([]byte)
		kind            hal.Table
		partitions      int
		primary, backup bool
		damage          bool
		hybrid          bool
	}{
		{name: "whole", do: func([]byte) {}, kind: hal.GPT, partitions: 2, primary: true, backup: true},
		{name: "primary header gone", do: wipe(512, 1024), kind: hal.GPT, partitions: 2, backup: true},
		{name: "primary header flipped", do: flip(512 + 91), kind: hal.GPT, partitions: 2, backup: true},
		{name: "primary entries flipped", do: flip(1024 + 127), kind: hal.GPT, partitions: 2, backup: true},
		{name: "an unused primary entry flipped", do: flip(1024 + 127*128), kind: hal.GPT, partitions: 2, backup: true},
		{name: "backup header flipped", do: flip(end + 60), kind: hal.GPT, partitions: 2, primary: true},
		{name: "backup entries flipped", do: flip(end - 32*512), kind: hal.GPT, partitions: 2, primary: true},
		{name: "both flipped", do: both(flip(512+60), flip(end+60)), kind: hal.GPT, damage: true},
		{name: "protective MBR gone", do: wipe(0, 512), kind: hal.GPT, partitions: 2, primary: true, backup: true, damage: true},
		{name: "only the backup left", do: wipe(0, mib), kind: hal.GPT, partitions: 2, backup: true, damage: true},
		{name: "nothing left", do: both(wipe(0, mib), wipe(15*mib, size)), kind: hal.NoTable},
		{name: "hybrid", do: func(b []byte) {
			copy(b[446+16:], "\x80\x00\x00\x00\x0c\x00\x00\x00\x00\x08\x00\x00\x00\x20\x00\x00")
		}, kind: hal.GPT, partitions: 2, primary: true, backup: true, hybrid: true},
		// A card that had a GPT, and then the image for another board.
		{name: "MBR over it", do: func(b []byte) {
			clear(b[:mib])
			copy(b[446:], "\x80\x00\x00\x00\x0c\x00\x00\x00\x00\x08\x00\x00\x00\x20\x00\x00")
			copy(b[510:], "\x55\xaa")
		}, kind: hal.MBR, partitions: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := newRAM(size)
			copy(disk.b, whole.b)
			c.do(disk.b)
			got, err := signature.ReadTable(disk, size, 512)
			if err != nil {
				t.Fatal(err)
			}
			if got.Kind != c.kind || len(got.Partitions) != c.partitions || (got.Primary != nil) != c.primary ||
				(got.Backup != nil) != c.backup || (got.Damage != "") != c.damage || got.Hybrid != c.hybrid {
				t.Errorf("ReadTable = %+v; want %+v", got, c)
			}
		})
	}
}

func TestLargerBlocks(t *testing.T) {
	disk := newRAM(16 * mib)
	image := newImage(t, disk.size())
	// sfdisk knows blocks of a file as 512 bytes; moving the parts by hand
	// gives what a disk with blocks of 4,096 has at its start.
	tool(t, gptScript, "sfdisk", "-q", image)
	small, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	copy(disk.b, small[:512])
	copy(disk.b[4096:], small[512:1024])
	copy(disk.b[2*4096:], small[1024:1024+128*128])
	for _, block := range []int64{0, 4096} {
		got, err := signature.ReadTable(disk, disk.size(), block)
		if err != nil || got.Primary == nil || got.Block != 4096 || len(got.Partitions) != 2 || got.Partitions[0].Start != 2048*4096 {
			t.Errorf("ReadTable with blocks of %d = %+v, %v; want a table that counts in 4,096 bytes", block, got, err)
		}
	}
	if got, _ := signature.ReadTable(disk, disk.size(), 512); got.Primary != nil || got.Damage == "" {
		t.Errorf("ReadTable with the wrong blocks = %+v; want it damaged", got)
	}
}

func TestLargest(t *testing.T) {
	for _, c := range []struct {
		name, script  string
		start, length int64 // MiB
	}{
		{"no table", "", 1, 15},
		{"GPT", gptScript, 7, 8}, // the last MiB holds the backup
		{"empty GPT", "label: gpt\n", 1, 14},
		{"a gap in the middle", "label: gpt\nstart=1MiB,size=1MiB\nstart=12MiB,size=1MiB\n", 2, 10},
		{"entries out of order", "label: dos\nstart=10MiB,size=6MiB,type=83\nstart=2MiB,size=1MiB,type=83\n", 3, 7},
		{"not on a MiB", "label: dos\nstart=2048,size=2049,type=83\n", 3, 13},
		{"extended", "label: dos\nstart=1MiB,size=10MiB,type=5\nstart=2MiB,size=1MiB,type=83\n", 11, 5},
		{"full", "label: dos\nstart=1MiB,type=83\n", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			disk := newRAM(16 * mib)
			if c.script != "" {
				writeTable(t, disk, c.script)
			}
			table, err := signature.ReadTable(disk, disk.size(), 512)
			if err != nil {
				t.Fatal(err)
			}
			if start, length := table.Largest(); start != c.start*mib || length != c.length*mib {
				t.Errorf("Largest = %d, %d; want %d, %d MiB", start, length, c.start, c.length)
			}
		})
	}
	// A GPT may have been made for a smaller disk.
	disk := newRAM(16 * mib)
	writeTable(t, disk, gptScript)
	disk.b = append(disk.b, make([]byte, 16*mib)...)
	table, err := signature.ReadTable(disk, disk.size(), 512)
	if err != nil || table.Backup == nil {
		t.Fatalf("ReadTable of a GPT for a smaller disk = %+v, %v; want its backup found", table, err)
	}
	if start, length := table.Largest(); start != 7*mib || length != 24*mib {
		t.Errorf("Largest = %d, %d; want 7, 24 MiB", start, length)
	}
}

// TestLogicalInCircles follows a chain that leads back to itself.
func TestLogicalInCircles(t *testing.T) {
	disk := newRAM(16 * mib)
	copy(disk.b[446:], "\x00\x00\x00\x00\x05\x00\x00\x00\x00\x08\x00\x00\x00\x20\x00\x00")
	copy(disk.b[510:], "\x55\xaa")
	ebr := disk.b[mib:]
	copy(ebr[446:], "\x00\x00\x00\x00\x83\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00")
	copy(ebr[462:], "\x00\x00\x00\x00\x05\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00")
	copy(ebr[510:], "\x55\xaa")
	copy(ebr[512:], ebr[:512])
	got, err := signature.ReadTable(disk, disk.size(), 512)
	if err != nil || got.Kind != hal.MBR || len(got.Partitions) < 3 || len(got.Partitions) > 100 {
		t.Errorf("ReadTable = %d partitions, %v; want the chain followed, and an end to it", len(got.Partitions), err)
	}
}
