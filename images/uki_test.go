package images_test

import (
	"bytes"
	"debug/pe"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"machined/board"
	"machined/images/netboot"
	"machined/images/parts"
	"machined/tools/testenv"
)

// TestUKI has debug/pe read a UKI, and compares its sections with what they were
// made of.
func TestUKI(t *testing.T) {
	store := netbootStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		if b.Firmware != board.UEFI {
			t.Skip("the firmware starts no UKI")
		}
		dir := t.TempDir()
		checkUKI(t, dir, b, store, buildNetboot(t, dir, b, store, nil))
	})
}

// TestRealUKI does so with the parts that `make parts` collected, and asks the real
// objdump as well.
func TestRealUKI(t *testing.T) {
	const real = "../build/parts"
	testenv.Need(t, filepath.Join(real, "stub/amd64.efi"))
	if testing.Short() {
		t.Skip("builds real images; left out by -short")
	}
	store := openStore(t, real)
	for _, name := range []string{"x86_64-uefi", "arm64-uefi"} {
		t.Run(name, func(t *testing.T) {
			b, dir := boardNamed(t, name), t.TempDir()
			built := buildNetboot(t, dir, b, store, nil)
			checkUKI(t, dir, b, store, built)
			if b.Arch == "amd64" { // the stub of arm64 is too plain for objdump
				checkObjdump(t, filepath.Join(dir, filepath.FromSlash(built.UKI.Path)))
			}
		})
	}
}

func checkUKI(t *testing.T, dir string, b board.Board, store *parts.Store, built netboot.Board) {
	t.Helper()
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := read(filepath.Join(dir, b.Name, "uki.efi"))
	f, err := pe.NewFile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	stub, err := pe.NewFile(bytes.NewReader(read(store.Path("stub/" + b.Arch + ".efi"))))
	if err != nil {
		t.Fatal(err)
	}
	spaces := strings.Repeat(" ", netboot.PlaceholderLength)
	if at := built.UKI.Placeholder; string(text[at.Offset:][:at.Length]) != spaces || !bytes.HasSuffix(text[:at.Offset], []byte(built.Arguments)) {
		t.Errorf("the placeholder at %d is not behind the arguments", at.Offset)
	}
	added := map[string][]byte{
		".cmdline": []byte(built.Arguments + spaces),
		".osrel":   []byte("ID=machined\nNAME=machined\nPRETTY_NAME=\"machined " + built.Version + "\"\nVERSION_ID=" + built.Version + "\n"),
		".linux":   read(store.Path("kernel/" + b.Arch)),
		".initrd":  read(filepath.Join(dir, b.Name, "initramfs.img")),
	}
	if len(f.Sections) != len(stub.Sections)+len(added) {
		t.Fatalf("the UKI has %d sections; want the stub's %d and %d", len(f.Sections), len(stub.Sections), len(added))
	}
	end := stub.OptionalHeader.(*pe.OptionalHeader64).SizeOfImage
	for i, s := range f.Sections {
		if i < len(stub.Sections) {
			if s.SectionHeader != stub.Sections[i].SectionHeader {
				t.Errorf("section %s of the stub has become %+v", s.Name, s.SectionHeader)
			}
			continue
		}
		if got := text[s.Offset:][:min(s.VirtualSize, s.Size)]; !bytes.HasPrefix(got, added[s.Name]) || len(added[s.Name]) == 0 {
			t.Errorf("section %s does not hold what it was made of", s.Name)
		}
		if s.VirtualAddress%4096 != 0 || s.VirtualAddress < end || s.Offset%512 != 0 || s.Characteristics != 0x40000040 {
			t.Errorf("section %s is %+v; want it at a multiple of 4096 from %d on", s.Name, s.SectionHeader, end)
		}
		if s.Name != ".linux" && int(s.VirtualSize) != len(added[s.Name]) {
			t.Errorf("section %s has %d bytes in memory; want %d", s.Name, s.VirtualSize, len(added[s.Name]))
		}
		end = s.VirtualAddress + s.VirtualSize
	}
	if o := f.OptionalHeader.(*pe.OptionalHeader64); o.SizeOfImage < end || o.SizeOfImage%4096 != 0 || o.CheckSum != 0 || f.NumberOfSymbols != 0 {
		t.Errorf("the UKI has the header %+v, %+v; want it to cover %d bytes", f.FileHeader, o, end)
	}
	kernel, err := parsedPE(added[".linux"])
	if err != nil {
		t.Fatal(err)
	}
	if last := f.Sections[len(f.Sections)-1]; last.Name != ".linux" || last.VirtualSize != max(kernel.SizeOfImage, uint32(len(added[".linux"]))) {
		t.Errorf("the last section is %+v; want the kernel with the %d bytes that it needs", last.SectionHeader, kernel.SizeOfImage)
	}
}

func parsedPE(text []byte) (*pe.OptionalHeader64, error) {
	f, err := pe.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return f.OptionalHeader.(*pe.OptionalHeader64), nil
}

func checkObjdump(t *testing.T, path string) {
	t.Helper()
	out, err := exec.Command("objdump", "-h", path).CombinedOutput()
	if err != nil {
		t.Fatalf("objdump -h: %v\n%s", err, out)
	}
	last := int64(0)
	for _, name := range []string{".sdmagic", ".osrel", ".cmdline", ".initrd", ".linux"} {
		m := regexp.MustCompile(regexp.QuoteMeta(name) + ` +([0-9a-f]{8}) +([0-9a-f]{16}) `).FindSubmatch(out)
		if m == nil {
			t.Fatalf("objdump shows no section %s:\n%s", name, out)
		}
		size, _ := strconv.ParseInt(string(m[1]), 16, 64)
		at, _ := strconv.ParseInt(string(m[2]), 16, 64)
		if at < last {
			t.Errorf("objdump has %s at %#x; want it from %#x on", name, at, last)
		}
		last = at + size
	}
}
