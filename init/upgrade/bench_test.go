package upgrade

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"machined/hal"
	"machined/hal/fake"
	"machined/hal/linux"
	"machined/images/bundle"
	"machined/rpi"
)

// benchSize is about that of a slot of the Pi, in bytes.
const benchSize = 44 << 20

func benchContent() []byte {
	b := make([]byte, benchSize)
	rand.New(rand.NewSource(1)).Read(b)
	return b
}

// BenchmarkPlainCopy writes as much as an upgrade does, and flushes it: what the
// file system can do.
func BenchmarkPlainCopy(b *testing.B) {
	content, dir := benchContent(), b.TempDir()
	b.SetBytes(benchSize)
	for b.Loop() {
		f, err := os.Create(filepath.Join(dir, "copy"))
		if err != nil {
			b.Fatal(err)
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{bytes.NewReader(content)}, make([]byte, chunk))
		if err != nil || f.Sync() != nil || f.Close() != nil {
			b.Fatal("the copy failed:", err)
		}
	}
}

// BenchmarkInstall is a whole upgrade to the same file system: the bundle read and
// hashed, the slot written and flushed, read back from the disk and compared.
func BenchmarkInstall(b *testing.B) {
	content, dir := benchContent(), b.TempDir()
	for path, text := range map[string]string{
		rpi.ConfigFile: rpi.Config('A'), "A/kernel8.img": "kernel",
		"A/initramfs.img": "initramfs",
		"A/manifest.json": hal.SlotManifest{Version: "v1", Board: "test", Files: []hal.SlotFile{{Path: "kernel8.img", Size: 6}, {Path: "initramfs.img", Size: 9}}}.String(),
	} {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	var packed bytes.Buffer
	files := map[string][]byte{"kernel8.img": content}
	m := bundle.Manifest{Version: "v2.0.0", Board: "test", Arguments: "panic=10"}
	for _, name := range []string{"overlays/README", "bcm2710-rpi-3-b-plus.dtb", "initramfs.img", "kernel8.img", "system.squashfs"} {
		if files[name] == nil {
			files[name] = []byte(name)
		}
		m.Files = append(m.Files, hal.SlotFile{Path: name, Size: int64(len(files[name])), SHA256: sha256.Sum256(files[name])})
	}
	open := func(name string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files[name])), nil }
	if err := bundle.Write(&packed, m, open, nil); err != nil {
		b.Fatal(err)
	}
	loader := &rpi.Bootloader{Files: &linux.BootFiles{Dir: dir, Remount: func(bool) error { return nil }}}
	manager := New(Drivers{
		Bootloader: loader, Files: &fake.Files{}, OnState: func(string) string { return "" }, Kick: func() {}, Say: b.Logf,
	}, Facts{Board: "test", Slot: "A", Version: "v1"})
	if err := manager.Boot(""); err != nil {
		b.Fatal(err)
	}
	b.Run("all", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			if err := run(manager, bytes.NewReader(packed.Bytes()), Options{Stage: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
	// Without the reading back, which a plain copy does not do.
	b.Run("write", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			r, err := bundle.NewReader(bytes.NewReader(packed.Bytes()))
			if err == nil {
				err = manager.accept(r)
			}
			if err != nil {
				b.Fatal(err)
			}
			w, err := loader.Stage("A", r.Content())
			if err == nil {
				err = manager.write(r, w)
			}
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := w.Abort(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}
