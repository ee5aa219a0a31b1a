package images_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"machined/board"
	"machined/images"
	"machined/tools/piboot/fatfs"
	"machined/tools/testenv"
)

// update rewrites the golden files: go test ./images -update.
var update = flag.Bool("update", false, "rewrite the golden files")

// table is a partition table as sfdisk reads it; sizes in sectors.
type table struct {
	Label      string
	ID         string
	Partitions []struct {
		Start, Size int64
		Type, Name  string
		Bootable    bool
	}
}

// tool runs a program that judges an image, and returns what it says.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	testenv.Need(t, name)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func readTable(t *testing.T, image string) table {
	t.Helper()
	var dump struct{ PartitionTable table }
	if err := json.Unmarshal([]byte(tool(t, "sfdisk", "--json", image)), &dump); err != nil {
		t.Fatal(err)
	}
	if n := len(dump.PartitionTable.Partitions); n != 1 {
		t.Fatalf("%s has %d partitions; want the boot partition alone", image, n)
	}
	return dump.PartitionTable
}

// volume opens the boot partition.
func volume(t *testing.T, image string) (fs.FS, *io.SectionReader) {
	t.Helper()
	p := readTable(t, image).Partitions[0]
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	section := io.NewSectionReader(f, p.Start*512, p.Size*512)
	v, err := fatfs.Open(section, section.Size())
	if err != nil {
		t.Fatal(err)
	}
	return v, section
}

func readFile(t *testing.T, v fs.FS, name string) string {
	t.Helper()
	b, err := fs.ReadFile(v, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestImage(t *testing.T) {
	store := fakeStore(t)
	ids := make(map[string]string)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		img := build(t, fakeOptions(b, store))
		checkImage(t, img)
		id := readTable(t, img.Path).ID
		if other := ids[id]; other != "" || strings.Trim(id, "0x-") == "" {
			t.Errorf("the disk has the id %s; want one of its own (%s)", id, other)
		}
		ids[id] = b.Name
	})
}

// checkImage has the tools of the trade judge the table and the boot volume.
func checkImage(t *testing.T, img images.Image) {
	t.Helper()
	tool(t, "sfdisk", "--verify", img.Path)
	got := readTable(t, img.Path)
	p := got.Partitions[0]
	uefi := img.Manifest.Board == "x86_64-uefi" || img.Manifest.Board == "arm64-uefi"
	switch {
	case uefi && (got.Label != "gpt" || p.Type != "C12A7328-F81F-11D2-BA4B-00A0C93EC93B" || p.Name != "EFI"):
		t.Errorf("the table is %+v; want GPT with an EFI system partition", got)
	case !uefi && (got.Label != "dos" || p.Type != "c" || !p.Bootable):
		t.Errorf("the table is %+v; want MBR with an active FAT32 partition", got)
	}
	if uefi {
		if out := tool(t, "sgdisk", "-v", img.Path); !strings.Contains(out, "No problems found") {
			t.Errorf("sgdisk -v says %s", out)
		}
	}
	const mib = 2048 // sectors
	if p.Start%mib != 0 || p.Size%mib != 0 || p.Size < 128*mib {
		t.Errorf("the boot partition is at %d with %d sectors; want whole MiB, and room for larger versions", p.Start, p.Size)
	}
	checkVolume(t, img.Path)
}

func checkVolume(t *testing.T, image string) {
	t.Helper()
	_, section := volume(t, image)
	file := filepath.Join(t.TempDir(), "boot.fat")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, section); err != nil {
		t.Fatal(err)
	}
	tool(t, "fsck.fat", "-n", "-V", file)
	if got := strings.TrimSpace(tool(t, "blkid", "-o", "value", "-s", "LABEL", file)); got != images.Label {
		t.Errorf("the boot volume's label is %q; want %q", got, images.Label)
	}
}

// TestSlots compares each slot with its manifest.
func TestSlots(t *testing.T) {
	store := fakeStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) { checkSlots(t, build(t, fakeOptions(b, store))) })
}

func checkSlots(t *testing.T, img images.Image) {
	t.Helper()
	v, _ := volume(t, img.Path)
	for _, slot := range []string{"A", "B"} {
		var m images.SlotManifest
		if err := json.Unmarshal([]byte(readFile(t, v, slot+"/"+images.ManifestName)), &m); err != nil {
			t.Fatal(err)
		}
		if m.Version != img.Manifest.Version || m.Board != img.Manifest.Board {
			t.Errorf("slot %s is of version %q for %q; want %q for %q", slot, m.Version, m.Board, img.Manifest.Version, img.Manifest.Board)
		}
		want := map[string]string{}
		for _, f := range m.Files {
			want[f.Path] = fmt.Sprint(f.Size, " ", f.SHA256)
		}
		if got := hashTree(t, v, slot); !sameMaps(got, want) || len(want) != len(m.Files) {
			t.Errorf("slot %s holds %v; its manifest says %v", slot, got, want)
		}
		if line := readFile(t, v, slot+"/cmdline.txt"); !strings.Contains(line, " machined.slot="+slot) || strings.Count(line, "\n") != 1 {
			t.Errorf("the command line of slot %s is %q; want one line that names the slot", slot, line)
		}
		if slot != "A" {
			continue
		}
		if got := fmt.Sprint(img.Manifest.Slot); got != fmt.Sprint(m) {
			t.Errorf("the image's manifest has the slot %v; want that of slot A, %v", got, m)
		}
	}
}

// hashTree returns size and hash of each file below dir but the manifest.
func hashTree(t *testing.T, v fs.FS, dir string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	err := fs.WalkDir(v, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == path.Join(dir, images.ManifestName) {
			return err
		}
		b, err := fs.ReadFile(v, name)
		sum := sha256.Sum256(b)
		got[strings.TrimPrefix(name, dir+"/")] = fmt.Sprint(len(b), " ", hex.EncodeToString(sum[:]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func sameMaps(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// TestLayout compares the tree of files, and the text of those that steer the
// boot, with golden files.
func TestLayout(t *testing.T) {
	store := fakeStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		v, _ := volume(t, build(t, fakeOptions(b, store)).Path)
		var tree, texts strings.Builder
		err := fs.WalkDir(v, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			fmt.Fprintln(&tree, name)
			if base := path.Base(name); base == "config.txt" || base == "cmdline.txt" || path.Ext(base) == ".conf" {
				fmt.Fprintf(&texts, "\n== %s\n%s", name, readFile(t, v, name))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		compareGolden(t, b.Name, tree.String()+texts.String())
	})
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	golden := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", golden, got, want)
	}
}

// TestConfigAndPKI finds on the boot partition what the options gave, and
// nothing where they gave nothing.
func TestConfigAndPKI(t *testing.T) {
	store := fakeStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		o := fakeOptions(b, store)
		v, _ := volume(t, build(t, o).Path)
		if got := readFile(t, v, "machined/config.yaml"); got != string(o.Config) {
			t.Errorf("config.yaml = %q; want %q", got, o.Config)
		}
		for name, want := range o.PKI {
			if got := readFile(t, v, "machined/pki/"+name); got != string(want) {
				t.Errorf("pki/%s = %q; want %q", name, got, want)
			}
		}
		o.Config, o.PKI = nil, nil
		v, _ = volume(t, build(t, o).Path)
		if _, err := fs.Stat(v, "machined"); err == nil {
			t.Error("there is a directory machined without config and PKI; want none")
		}
	})
}
