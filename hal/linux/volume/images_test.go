package volume

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"

	"machined/tools/parts/ext4"
)

const (
	bootStart, bootSize = 1 * mib, 4 * mib
	bootMark            = 8 << 10 // bytes at either end that are checked
	bootGUID            = "AAAAAAAA-0001-4000-8000-000000000002"
)

// imageGPT puts an image's GPT on disk, made for tableSize bytes.
func imageGPT(t *testing.T, disk *ramDisk, tableSize int64, more ...*gpt.Partition) {
	t.Helper()
	table := &gpt.Table{
		LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize, ProtectiveMBR: true, GUID: "AAAAAAAA-0001-4000-8000-000000000001",
		Partitions: append([]*gpt.Partition{{
			Index: 1, Name: "EFI", Type: gpt.EFISystemPartition, GUID: bootGUID,
			Start: bootStart / sectorSize, Size: bootSize, End: (bootStart+bootSize)/sectorSize - 1,
		}}, more...),
	}
	if err := table.Write(disk, tableSize); err != nil {
		t.Fatal(err)
	}
	writeBoot(t, disk)
}

// gptPart is a partition of a GPT, in MiB.
func gptPart(number int, name string, kind gpt.Type, start, end uint64) *gpt.Partition {
	return &gpt.Partition{Index: number, Name: name, Type: kind, Start: start * 2048, End: end*2048 - 1, Size: (end - start) * mib}
}

// imageMBR puts an image's MBR on disk, with its signature.
func imageMBR(t *testing.T, disk *ramDisk, more ...*mbr.Partition) {
	t.Helper()
	table := &mbr.Table{
		LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize,
		Partitions: append([]*mbr.Partition{{
			Index: 1, Bootable: true, Type: mbr.Fat32LBA, Start: bootStart / sectorSize, Size: bootSize / sectorSize,
		}}, more...),
	}
	if err := table.Write(disk, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.WriteAt([]byte{0xcd, 0xab, 0x34, 0x12}, 440); err != nil {
		t.Fatal(err)
	}
	writeBoot(t, disk)
}

// mbrPart is a partition of an MBR, in MiB.
func mbrPart(number int, kind mbr.Type, start, end uint32) *mbr.Partition {
	return &mbr.Partition{Index: number, Type: kind, Start: start * 2048, Size: (end - start) * 2048}
}

func bootContents() []byte { return bytes.Repeat([]byte("boot partition. "), bootMark/16) }

// writeBoot marks the start and the end of the boot partition.
func writeBoot(t *testing.T, disk *ramDisk) {
	t.Helper()
	for _, at := range []int64{bootStart, bootStart + bootSize - bootMark} {
		if _, err := disk.WriteAt(bootContents(), at); err != nil {
			t.Fatal(err)
		}
	}
}

func checkBoot(t *testing.T, disk io.ReaderAt) {
	t.Helper()
	for _, at := range []int64{bootStart, bootStart + bootSize - bootMark} {
		if got := readAt(t, disk, at, bootMark); !bytes.Equal(got, bootContents()) {
			t.Fatalf("the boot partition has changed at %d", at)
		}
	}
}

// templates are gzipped file systems by name.
type templates map[string][]byte

func (ts templates) open(name string) (io.ReadCloser, error) {
	b, ok := ts[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func packed(contents []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(contents)
	_ = z.Close()
	return b.Bytes()
}

// simpleContents looks like an ext4 as far as this package looks. Not all of
// it, as of a real one, is anything but zero.
func simpleContents() []byte { return bytes.Clone(simpleOnce()) }

var simpleOnce = sync.OnceValue(func() []byte {
	b := make([]byte, 70_000)
	for i := range b {
		if i/5000%3 > 0 {
			b[i] = byte(i>>8) ^ byte(i)
		}
	}
	le := binary.LittleEndian
	clear(b[:2048])
	le.PutUint16(b[superMagic:], 0xef53)
	le.PutUint32(b[superIncompat:], incompatCsumSeed|0x40)
	le.PutUint32(b[superROCompat:], roCompatCsum)
	le.PutUint32(b[superChecksum:], ^crc32.Checksum(b[super:superChecksum], crc32.MakeTable(crc32.Castagnoli)))
	return b
})

func simpleTemplates() templates {
	b := packed(simpleContents())
	return templates{smallTemplate: b, largeTemplate: b}
}

// realTemplates makes the templates as a slot carries them.
func realTemplates(t *testing.T) templates {
	t.Helper()
	run(t, "mke2fs", "-V")
	made := make(templates)
	for _, template := range ext4.Templates() {
		path := filepath.Join(t.TempDir(), template.Name)
		err := template.Make(path, 1_790_000_000, func(_ []string, name string, args ...string) error {
			run(t, name, args...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		made[template.Name] = packed(b)
		t.Logf("%s: %d bytes, %d gzipped", template.Name, len(b), len(made[template.Name]))
	}
	return made
}
