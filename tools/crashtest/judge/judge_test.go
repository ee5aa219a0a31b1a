package judge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"machined/images/fat32"
	"machined/tools/crash"
	"machined/tools/crashtest/scenario"
)

const volumeBytes = 40 << 20

func newVolume(t *testing.T) *Volume {
	t.Helper()
	v, err := NewVolume(filepath.Join(t.TempDir(), "volume"), volumeBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func formatted(t *testing.T, tree map[string][]byte) *Volume {
	t.Helper()
	v := newVolume(t)
	var files []fat32.File
	for path, data := range tree {
		files = append(files, fat32.File{Path: path, Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data)), nil
		}})
	}
	if err := fat32.Write(v, volumeBytes, files, fat32.Options{Time: time.Unix(1e9, 0)}); err != nil {
		t.Fatal(err)
	}
	return v
}

func newJudge(t *testing.T, b scenario.Backend) *Judge {
	t.Helper()
	fsck, err := FindFsck()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &Judge{Backend: b, Fsck: fsck, Scratch: newVolume(t)}
}

func TestNewImage(t *testing.T) {
	for _, b := range scenario.Backends() {
		j, v := newJudge(t, b), formatted(t, b.Tree())
		if slot, err := j.Boots(v, b.Rules); slot != "A" || err != nil {
			t.Errorf("%s: Boots = %q, %v; want A", b.Name, slot, err)
		}
		var count Repairs
		if err := j.Repair(v, []string{"A"}, &count); err != nil || count != (Repairs{Clean: 1}) {
			t.Errorf("%s: Repair counts %+v, %v; want a clean one", b.Name, count, err)
		}
		for _, want := range []bool{true, false} { // the second time it is known
			if fresh, err := j.Upgrade(v); fresh != want || err != nil {
				t.Errorf("%s: Upgrade = %v, %v; want %v", b.Name, fresh, err, want)
			}
		}
	}
}

// TestDirty marks a volume dirty and cuts the chain of a file.
func TestDirty(t *testing.T) {
	for _, b := range scenario.Backends() {
		tree, text := b.Tree(), []byte("of a file that is cut\n")
		tree["other/file"] = bytes.Repeat(text, 100)
		j, v := newJudge(t, b), formatted(t, tree)
		v.Sector(0)[65] |= 1
		freeFirstCluster(v, text)
		before := bytes.Clone(v.data[:v.end])
		var count Repairs
		if err := j.Repair(v, []string{"A"}, &count); err != nil || count != (Repairs{Repairable: 1, Mended: 1}) {
			t.Errorf("%s: Repair counts %+v, %v; want one repaired by each", b.Name, count, err)
		}
		if err := j.Repair(v, []string{"B"}, &count); !errors.Is(err, ErrWrong) {
			t.Errorf("%s: Repair of a volume that boots A and has to boot B = %v; want %v", b.Name, err, ErrWrong)
		}
		if fresh, err := j.Upgrade(v); !fresh || err != nil {
			t.Errorf("%s: Upgrade = %v, %v; want a new tree", b.Name, fresh, err)
		}
		if !bytes.Equal(before, v.data[:len(before)]) {
			t.Errorf("%s: the volume was changed", b.Name)
		}
	}
}

// freeFirstCluster has the first cluster of the file with that beginning free in
// both FATs. A cluster has one sector.
func freeFirstCluster(v *Volume, beginning []byte) {
	reserved, perFAT := int(binary.LittleEndian.Uint16(v.data[14:])), int(binary.LittleEndian.Uint32(v.data[36:]))
	cluster := bytes.Index(v.data[:v.end], beginning)/512 - reserved - 2*perFAT + 2
	for fat := range 2 {
		clear(v.data[(reserved+fat*perFAT)*512+4*cluster:][:4])
	}
}

func TestBrick(t *testing.T) {
	for _, b := range scenario.Backends() {
		tree := b.Tree()
		tree["A/system.squashfs"][0] ^= 1
		j, v := newJudge(t, b), formatted(t, tree)
		if slot, err := j.Boots(v, b.Rules); !errors.Is(err, crash.ErrBrick) {
			t.Errorf("%s: Boots of a damaged slot = %q, %v; want %v", b.Name, slot, err, crash.ErrBrick)
		}
		if slot, err := j.Boots(newVolume(t), b.Rules); !errors.Is(err, crash.ErrBrick) {
			t.Errorf("%s: Boots of nothing = %q, %v; want %v", b.Name, slot, err, crash.ErrBrick)
		}
	}
}

func TestVolume(t *testing.T) {
	a, b := newVolume(t), newVolume(t)
	copy(a.Sector(3), "one")
	copy(b.Sector(1000), "left over")
	b.Copy(a)
	if !bytes.Equal(a.data[:1<<20], b.data[:1<<20]) {
		t.Error("a copy differs")
	}
	to, err := os.Create(filepath.Join(t.TempDir(), "saved"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := a.Save(to); err != nil {
		t.Fatal(err)
	}
	if saved, err := os.ReadFile(to.Name()); err != nil || !bytes.Equal(saved, a.data[:4*512]) {
		t.Errorf("%d bytes are saved, %v; want what was written", len(saved), err)
	}
	if _, err := a.WriteAt([]byte{1, 2}, volumeBytes-1); err == nil {
		t.Error("a write beyond the end succeeds")
	}
	if n, err := a.ReadAt(make([]byte, 2), volumeBytes-1); n != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("ReadAt over the end = %d, %v; want 1, EOF", n, err)
	}
}
