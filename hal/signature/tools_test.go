package signature_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"machined/hal"
	"machined/hal/signature"
	"machined/tools/testenv"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// tool runs one of the real tools, which have to be installed in CI.
func tool(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	testenv.Need(t, name)
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// newImage makes a sparse file in a device's place.
func newImage(t testing.TB, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	return path
}

// open returns the image as the package reads it.
func open(t *testing.T, path string) (*os.File, int64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return f, info.Size()
}

// probe is what blkid finds, by its names of the fields.
func probe(t *testing.T, path string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	out, _ := exec.Command("blkid", "-p", "-o", "export", path).Output() // it fails where it finds nothing
	for line := range strings.Lines(string(out)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			found[key] = strings.ReplaceAll(value, `\`, "") // it quotes for a shell
		}
	}
	return found
}

// compare has blkid judge what Read finds.
func compare(t *testing.T, path, fs string) {
	t.Helper()
	tool(t, "", "blkid", "--version")
	f, size := open(t, path)
	got, err := signature.Read(f, size)
	if err != nil {
		t.Fatal(err)
	}
	by := probe(t, path)
	if want := (signature.Content{FS: by["TYPE"], Label: by["LABEL"], UUID: by["UUID"]}); got != want || got.FS != fs {
		t.Errorf("Read = %+v; blkid has %+v, and %q was made", got, want, fs)
	}
}

func TestFileSystemsByTools(t *testing.T) {
	const uuid = "12345678-9abc-4def-8123-456789abcdef"
	for _, c := range []struct {
		name, fs string
		size     int64
		make     []string
	}{
		{"ext2", "ext2", 4 * mib, []string{"mkfs.ext2", "-q", "-L", "old one", "-U", uuid}},
		{"ext3", "ext3", 16 * mib, []string{"mkfs.ext3", "-q", "-L", "older", "-U", uuid}},
		{"ext4", "ext4", 16 * mib, []string{"mkfs.ext4", "-q", "-L", "sixteen letters!", "-U", uuid}},
		{"ext4 without a journal", "ext4", 16 * mib, []string{"mkfs.ext4", "-q", "-O", "^has_journal"}},
		{"ext4 with blocks of 1 KiB", "ext4", 16 * mib, []string{"mkfs.ext4", "-q", "-b", "1024", "-L", "small"}},
		{"ext4 without checksums", "ext4", 16 * mib, []string{"mkfs.ext4", "-q", "-O", "^metadata_csum"}},
		{"an ext4's journal", "jbd", 16 * mib, []string{"mke2fs", "-q", "-O", "journal_dev", "-L", "log", "-U", uuid}},
		{"FAT12", "vfat", 2 * mib, []string{"mkfs.vfat", "-F", "12", "-n", "TWELVE", "-i", "12345678"}},
		{"FAT16", "vfat", 16 * mib, []string{"mkfs.vfat", "-F", "16", "-n", "SIX TEEN", "-i", "00000001"}},
		{"FAT32", "vfat", 64 * mib, []string{"mkfs.vfat", "-F", "32", "-n", "BOOT", "-i", "deadbeef"}},
		{"FAT32 without a name", "vfat", 64 * mib, []string{"mkfs.vfat", "-F", "32"}},
		{"FAT32 with large sectors", "vfat", 64 * mib, []string{"mkfs.vfat", "-F", "32", "-S", "4096", "-n", "BIG"}},
		{"exFAT", "exfat", 16 * mib, []string{"mkfs.exfat", "-L", "cam era"}},
		{"swap", "swap", 4 * mib, []string{"mkswap", "-q", "-L", "swap", "-U", uuid}},
		{"swap with pages of 16 KiB", "swap", 4 * mib, []string{"mkswap", "-q", "-p", "16384"}},
		{"swap with pages of 64 KiB", "swap", 4 * mib, []string{"mkswap", "-q", "-p", "65536"}},
		{"XFS", "xfs", 320 * mib, []string{"mkfs.xfs", "-q", "-L", "twelve chars", "-m", "uuid=" + uuid}},
		{"btrfs", "btrfs", 128 * mib, []string{"mkfs.btrfs", "-q", "-L", "b-tree", "-U", uuid}},
		{"F2FS", "f2fs", 128 * mib, []string{"mkfs.f2fs", "-q", "-l", "flash"}},
		{"NTFS", "ntfs", 16 * mib, []string{"mkntfs", "-q", "-F", "-Q"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := newImage(t, c.size)
			tool(t, "", c.make[0], append(c.make[1:], image)...)
			compare(t, image, c.fs)
		})
	}
}

func TestArchivesByTools(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "image")
	t.Run("squashfs", func(t *testing.T) {
		tool(t, "", "mksquashfs", dir, image, "-quiet", "-noappend")
		compare(t, image, "squashfs")
	})
	t.Run("ISO 9660", func(t *testing.T) {
		tool(t, "", "genisoimage", "-quiet", "-V", "A CD", "-o", image, dir)
		compare(t, image, "iso9660")
	})
}

func TestLUKSByTools(t *testing.T) {
	for _, version := range []string{"luks1", "luks2"} {
		t.Run(version, func(t *testing.T) {
			image := newImage(t, 32*mib)
			args := []string{"luksFormat", "-q", "--type", version, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"}
			if version == "luks2" {
				args = append(args, "--label", "secret")
			}
			tool(t, "password", "cryptsetup", append(args, image, "-")...)
			compare(t, image, "crypto_LUKS")
			if version == "luks1" {
				return
			}
			// The second copy says that it is no empty disk.
			write(t, image, 0, make([]byte, 4*kib))
			f, size := open(t, image)
			if got, err := signature.Read(f, size); err != nil || got.FS != "crypto_LUKS" || got.Blank {
				t.Errorf("Read without the first header = %+v, %v; want crypto_LUKS", got, err)
			}
		})
	}
}

func write(t *testing.T, path string, off int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

// TestTablesByTools has sfdisk judge the tables that it and sgdisk made.
func TestTablesByTools(t *testing.T) {
	for _, c := range []struct {
		name, script string // of sfdisk
		sgdisk       []string
	}{
		{name: "GPT", script: "label: gpt\nsize=4MiB,type=U,name=EFI\nsize=8MiB,type=L,name=\"a naïve name\"\nsize=1MiB,type=S\n"},
		{name: "GPT with few entries", script: "label: gpt\ntable-length: 4\nsize=4MiB,type=U\n"},
		{name: "GPT without partitions", script: "label: gpt\n"},
		{name: "GPT of sgdisk", sgdisk: []string{"-n", "7:8M:12M", "-c", "7:STATE", "-t", "7:8300", "-n", "2:20M:+1M"}},
		{name: "GPT with 256 entries", sgdisk: []string{"-S", "256", "-n", "200:8M:12M"}},
		{name: "MBR", script: "label: dos\nlabel-id: 0x1234abcd\nsize=4MiB,type=c,bootable\nsize=8MiB,type=83\n"},
		{name: "MBR with a gap", script: "label: dos\n3 : start=8192,size=4MiB,type=7\n"},
		{name: "MBR without partitions", script: "label: dos\n"},
		{name: "MBR with logical partitions", script: "label: dos\nsize=4MiB,type=c\nsize=40MiB,type=5\nsize=4MiB,type=83\nsize=5MiB,type=82\nsize=6MiB,type=83\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			image := newImage(t, 64*mib)
			if c.sgdisk != nil {
				tool(t, "", "sgdisk", append(c.sgdisk, image)...)
			} else {
				tool(t, c.script, "sfdisk", "-q", image)
			}
			compareTable(t, image)
		})
	}
}

// sfdiskTable is a table as sfdisk --json prints it.
type sfdiskTable struct {
	PartitionTable struct {
		Label, ID  string
		Partitions []struct {
			Node, Type, Name, UUID string
			Start, Size            int64
		}
	}
}

func compareTable(t *testing.T, image string) {
	t.Helper()
	var by sfdiskTable
	if err := json.Unmarshal([]byte(tool(t, "", "sfdisk", "--json", image)), &by); err != nil {
		t.Fatal(err)
	}
	f, size := open(t, image)
	got, err := signature.ReadTable(f, size, 512)
	if err != nil || got.Damage != "" || got.Hybrid {
		t.Fatalf("ReadTable = %+v, %v; want it whole", got, err)
	}
	kind := map[hal.Table]string{hal.GPT: "gpt", hal.MBR: "dos"}[got.Kind]
	id := strings.ToLower(strings.TrimPrefix(by.PartitionTable.ID, "0x"))
	if kind != by.PartitionTable.Label || got.ID != id || len(got.Partitions) != len(by.PartitionTable.Partitions) {
		t.Fatalf("ReadTable = %s %s with %d partitions; sfdisk has %+v", kind, got.ID, len(got.Partitions), by)
	}
	for i, p := range got.Partitions {
		want := by.PartitionTable.Partitions[i]
		kind := want.Type
		if got.Kind == hal.MBR {
			kind = fmt.Sprintf("%02s", kind)
		}
		if fmt.Sprint(image, p.Number) != want.Node || p.Start != want.Start*512 || p.Size != want.Size*512 ||
			p.Type != strings.ToLower(kind) || p.Label != want.Name || p.ID != strings.ToLower(want.UUID) {
			t.Errorf("partition %+v; sfdisk has %+v", p, want)
		}
	}
	if content, err := signature.Read(f, size); err != nil || content.FS != "" || content.Blank {
		t.Errorf("Read of a disk with a table = %+v, %v; want no file system, and not blank", content, err)
	}
}
