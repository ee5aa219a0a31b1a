package install

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/hal"
	"machined/hal/fake"
	"machined/hal/linux"
	"machined/rpi"
)

const mib = 1 << 20

// disk is a node with a blank disk, and what is on the boot partition that the disk
// gets: slot A, as an image has it.
type disk struct {
	Drivers
	t           *testing.T
	provisioner *fake.Provisioner
	mounts      *fake.Mounts
	dir         string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	blocks := &fake.BlockDevices{}
	blocks.AddDisk(hal.BlockDevice{Name: "sda", Size: 64 * mib, Blank: true})
	d := &disk{t: t, provisioner: &fake.Provisioner{Blocks: blocks}, mounts: &fake.Mounts{}, dir: t.TempDir()}
	d.mounts.AddDevice("/dev/sda1", "vfat")
	put := func(path string, content []byte) {
		full := filepath.Join(d.dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put(rpi.ConfigFile, []byte(rpi.Config('A')))
	m := hal.SlotManifest{Version: "v1", Board: "rpi-3a-plus"}
	for _, path := range []string{"cmdline.txt", "kernel8.img", "initramfs.img", "x.dtb", "overlays/README"} {
		content := []byte("of " + path)
		if path == "cmdline.txt" {
			content = []byte("console=x machined.slot=A panic=10\n")
		}
		put("A/"+path, content)
		m.Files = append(m.Files, hal.SlotFile{Path: path, Size: int64(len(content)), SHA256: sha256.Sum256(content)})
	}
	put("A/"+hal.SlotManifestName, []byte(m.String()))
	d.Drivers = Drivers{
		Provisioner: d.provisioner, Mounts: d.mounts, Dir: d.dir, Say: t.Logf,
		BootFiles: func(string) hal.BootFiles {
			return &linux.BootFiles{Dir: d.dir, Remount: func(bool) error { return nil }}
		},
		Bootloader: func(f hal.BootFiles) hal.Bootloader { return &rpi.Bootloader{Files: f} },
	}
	return d
}

// given is a source in memory.
type given []byte

func (g given) Open(context.Context) (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(g)), int64(len(g)), nil
}

func (d *disk) request() Request {
	return Request{
		Disk: "/dev/sda", Table: hal.MBR, Slot: "A", Source: given(bytes.Repeat([]byte("boot"), mib)),
		Files: map[string][]byte{"machined/config.yaml": []byte("machine: {}\n"), "machined/pki/node.key": []byte("secret")},
	}
}

func (d *disk) read(path string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, path))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

// TestRun: the partition is written, the second slot is like the first and as good,
// what is the node's own is beside, and nothing stays mounted.
func TestRun(t *testing.T) {
	d := newDisk(t)
	r := d.request()
	var done, total int64
	r.Progress = func(n, of int64) { done, total = n, of }
	if err := d.Run(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(d.provisioner.Boot, r.Source.(given)) || done != 4*mib || total != 4*mib {
		t.Errorf("%d bytes were written, told of %d of %d; want all of the source", len(d.provisioner.Boot), done, total)
	}
	if got := d.read("B/cmdline.txt"); got != "console=x panic=10 machined.slot=B\n" {
		t.Errorf("slot B's arguments are %q", got)
	}
	if got := d.read("B/overlays/README"); got != "of overlays/README" {
		t.Errorf("slot B has %q", got)
	}
	st, err := (&rpi.Bootloader{Files: d.BootFiles("")}).State("A")
	if err != nil || st.Default != "A" || st.Trial != "" || st.Problem != "" || st.Slots[0].State != hal.SlotGood || st.Slots[1].State != hal.SlotGood {
		t.Errorf("the slots are %+v, %v; want both good, and A to boot", st, err)
	}
	if d.read("machined/config.yaml") != "machine: {}\n" || d.read("machined/pki/node.key") != "secret" {
		t.Error("config and identity are not what was given")
	}
	if list, err := d.mounts.List(); err != nil || len(list) != 0 {
		t.Errorf("mounted are %v, %v; want nothing", list, err)
	}
}

// TestSecondSlotStays: the copy of a stick that was upgraded has its two versions.
func TestSecondSlotStays(t *testing.T) {
	d := newDisk(t)
	if err := d.Run(context.Background(), d.request()); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(d.dir, "B/kernel8.img"))
	if err != nil {
		t.Fatal(err)
	}
	d.provisioner.Blocks.Remove("sda1")
	r := d.request()
	r.Wipe = true
	if err := d.Run(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(d.dir, "B/kernel8.img"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("slot B was written anew, %v; want it as it was", err)
	}
}

// TestFails: whatever fails is said, and nothing stays mounted.
func TestFails(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		edit func(d *disk, r *Request)
		want error
	}{
		{"source", func(_ *disk, r *Request) { r.Source = Partition{Device: filepath.Join(t.TempDir(), "none")} }, os.ErrNotExist},
		{"disk", func(_ *disk, r *Request) { r.Disk = "/dev/none" }, hal.ErrNoDevice},
		{"disk that is not blank", func(d *disk, _ *Request) {
			d.provisioner.Blocks.Change(hal.BlockDevice{Name: "sda", Path: "/dev/sda", Disk: "sda", Size: 64 * mib, FS: "ext4"})
		}, hal.ErrInvalid},
		{"mount", func(d *disk, _ *Request) { d.mounts.Fail("Mount", 1, broken) }, broken},
		{"unmount", func(d *disk, _ *Request) { d.mounts.Fail("Unmount", 1, broken) }, broken},
		{"slot", func(d *disk, _ *Request) { _ = os.Remove(filepath.Join(d.dir, "A/kernel8.img")) }, nil},
		{"short source", func(_ *disk, r *Request) { r.Source = short{} }, io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(t)
			r := d.request()
			c.edit(d, &r)
			err := d.Run(context.Background(), r)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("Run = %v; want %v", err, c.want)
			}
			if list, _ := d.mounts.List(); len(list) != 0 && c.name != "unmount" {
				t.Errorf("mounted are %v; want nothing", list)
			}
			// Told of one that has its slots, but not its config and identity: it was
			// taken for a node, which booted with another identity.
			if _, there := d.provisioner.Blocks.Find("sda1"); there {
				t.Error("the disk has a boot partition; want none that is not complete")
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		d := newDisk(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := d.Run(ctx, d.request()); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v; want %v", err, context.Canceled)
		}
	})
}

type short struct{}

func (short) Open(context.Context) (io.ReadCloser, int64, error) {
	return io.NopCloser(io.MultiReader(strings.NewReader("a"), cut{})), 4 * mib, nil
}

type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// image makes a disk image in gzip, with an MBR as `image build` writes one.
func image(t *testing.T, boot []byte) []byte {
	t.Helper()
	head := make([]byte, mib)
	copy(head[446:], []byte{0x80, 0, 0, 0, 0x0c, 0, 0, 0, 0, 8, 0, 0, 0, byte(len(boot) / 512 >> 8), 0, 0})
	copy(head[510:], "\x55\xaa")
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	for _, part := range [][]byte{head, boot, make([]byte, 4096)} {
		if _, err := z.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func open(content []byte) ([]byte, error) {
	i := Image{Fetch: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }}
	r, size, err := i.Open(context.Background())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	got := make([]byte, size)
	_, err = io.ReadFull(r, got)
	return got, err
}

// TestImage: the boot partition comes out of an image, and not before all of the
// image has arrived whole.
func TestImage(t *testing.T) {
	boot := make([]byte, 2*mib)
	for i := range boot {
		boot[i] = byte(i * i >> 7)
	}
	whole := image(t, boot)
	if got, err := open(whole); err != nil || !bytes.Equal(got, boot) {
		t.Fatalf("%d bytes came out, %v; want the boot partition", len(got), err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-6] ^= 1 // the sum
	for name, content := range map[string][]byte{
		"empty": nil, "no gzip": []byte("MZ"), "cut in the head": whole[:100], "cut in the partition": whole[:len(whole)/2],
		"cut at the end": whole[:len(whole)-1], "damaged": damaged, "no table": gzipped(t, make([]byte, 3*mib)),
	} {
		if _, err := open(content); err == nil {
			t.Errorf("an image that is %s was taken", name)
		}
	}
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(content)
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// FuzzImage: whatever a server sends, no more memory is used than a piece, and
// nothing but an error comes of it.
func FuzzImage(f *testing.F) {
	f.Add([]byte("\x1f\x8b\x08"))
	f.Fuzz(func(t *testing.T, content []byte) {
		i := Image{Fetch: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }}
		r, size, err := i.Open(context.Background())
		if err != nil {
			return
		}
		if n, err := io.Copy(io.Discard, r); err == nil && n != size {
			t.Errorf("%d bytes came out of %d, without an error", n, size)
		}
	})
}
