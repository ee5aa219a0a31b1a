package piboot

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/images/fat32"
)

// makeImage writes an MBR whose entries have the given types, all but the
// first covering nothing of interest, and c as a volume in entry fat.
func makeImage(t *testing.T, c card, types [4]byte, fat int) string {
	t.Helper()
	const start, volume = 2048, 40 << 20
	name := filepath.Join(t.TempDir(), "card.img")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(start*512 + volume); err != nil {
		t.Fatal(err)
	}
	mbr := make([]byte, 512)
	mbr[510], mbr[511] = 0x55, 0xaa
	for i, kind := range types {
		e := mbr[446+16*i:]
		e[4] = kind
		if i == fat {
			binary.LittleEndian.PutUint32(e[8:], start)
			binary.LittleEndian.PutUint32(e[12:], volume/512)
		}
	}
	if _, err := f.WriteAt(mbr, 0); err != nil {
		t.Fatal(err)
	}
	var files []fat32.File
	for path, data := range c {
		files = append(files, fat32.File{Path: path, Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(data)), nil
		}})
	}
	if err := fat32.Write(io.NewOffsetWriter(f, start*512), volume, files, fat32.Options{HiddenSectors: start}); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestOpenImage(t *testing.T) {
	c := twoSlots()
	// The firmware finds files whatever their case.
	c["CONFIG.TXT"] = strings.ToUpper(c["config.txt"][:13]) + c["config.txt"][13:]
	delete(c, "config.txt")
	c["CONFIG.TXT"] = strings.Replace(c["CONFIG.TXT"], "OS_PREFIX", "os_prefix", 1)
	c["B/kernel8.img"] = strings.Repeat("kernel", 1<<20)
	for _, tt := range []struct {
		types [4]byte
		fat   int
	}{{[4]byte{0x0c, 0x83}, 0}, {[4]byte{0x83, 0x0b, 0x83}, 1}, {[4]byte{0, 0, 0, 0x0e}, 3}} {
		boot, closer, err := OpenImage(makeImage(t, c, tt.types, tt.fat))
		if err != nil {
			t.Fatal(err)
		}
		defer closer.Close()
		choice, err := Decide(boot, true)
		if err != nil || choice.Kernel != "B/kernel8.img" || choice.Cmdline != "console=ttyAMA0 slot=B" {
			t.Errorf("Decide on %v = %+v, %v; want slot B", tt.types, choice, err)
		}
		if kernel, err := fs.ReadFile(boot, choice.Kernel); err != nil || !bytes.Equal(kernel, []byte(c["B/kernel8.img"])) {
			t.Errorf("the kernel has %d bytes, %v; want %d", len(kernel), err, len(c["B/kernel8.img"]))
		}
		if choice, err = Decide(boot, false); err != nil || choice.OSPrefix != "A/" {
			t.Errorf("Decide on %v = %+v, %v; want slot A", tt.types, choice, err)
		}
	}
}

func TestOpenImageRefuses(t *testing.T) {
	good := makeImage(t, twoSlots(), [4]byte{0x0c}, 0)
	patch := func(off int64, b ...byte) string {
		data, err := os.ReadFile(good)
		if err != nil {
			t.Fatal(err)
		}
		copy(data[off:], b)
		name := filepath.Join(t.TempDir(), "bad.img")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	tests := []struct{ name, image, says string }{
		{"missing", filepath.Join(t.TempDir(), "none"), "no such file"},
		{"no MBR", patch(510, 0, 0), "MBR signature"},
		{"no FAT partition", patch(450, 0x83), "no FAT partition"},
		{"partition beyond the image", patch(446+12, 0xff, 0xff, 0xff, 0x7f), "the image has"},
		{"no volume", patch(2048*512+510, 0, 0), "twice long, once short"},
	}
	for _, tt := range tests {
		if _, _, err := OpenImage(tt.image); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: OpenImage() = %v; want %q", tt.name, err, tt.says)
		}
	}
}
