package bundle

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"testing"

	"machined/hal"
)

// zeros is a file of n zero bytes.
type zeros struct{ n int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.n)
	clear(p[:n])
	z.n -= n
	return int(n), nil
}

// zeroBundle returns the head of a bundle of files of zeros, and its reader.
func zeroBundle(t *testing.T, sizes ...int64) io.Reader {
	t.Helper()
	m := Manifest{Version: "v1.0.0", Board: "b", Arguments: "panic=10"}
	for i, size := range sizes {
		h := sha256.New()
		if _, err := io.Copy(h, &zeros{size}); err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, hal.SlotFile{Path: fmt.Sprintf("overlays/of-a-usual-length-%04d.dtbo", i), Size: size, SHA256: [32]byte(h.Sum(nil))})
	}
	head, err := m.head(nil)
	if err != nil {
		t.Fatal(err)
	}
	return io.MultiReader(bytes.NewReader(head), &zeros{m.Size()})
}

// TestMemory counts every byte that is allocated from the first byte of a
// bundle to its last. The most that is in use at once is less.
func TestMemory(t *testing.T) {
	many := make([]int64, MaxFiles)
	for i := range many {
		many[i] = 100
	}
	buffer := make([]byte, 32<<10)
	for _, c := range []struct {
		name  string
		sizes []int64
		limit uint64 // bytes
	}{
		{"1 MiB", []int64{1 << 20}, 64 << 10},
		{"256 MiB", []int64{1 << 20, 255 << 20}, 64 << 10},
		{"4096 files", many, 1 << 20},
	} {
		r := zeroBundle(t, c.sizes...)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		n, err := drain(r, buffer)
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d bytes in %d allocations", c.name, used, after.Mallocs-before.Mallocs)
		if err != nil || n != len(c.sizes) || used > c.limit {
			t.Errorf("%s: %d files, %v, %d bytes allocated; want at most %d", c.name, n, err, used, c.limit)
		}
	}
}

// drain reads a bundle and counts its files.
func drain(r io.Reader, buffer []byte) (int, error) {
	b, err := NewReader(r)
	if err != nil {
		return 0, err
	}
	if err := b.Verify(nil); err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		_, err := b.Next()
		if err == io.EOF {
			return n, nil
		}
		for err == nil {
			_, err = b.Read(buffer)
		}
		if err != io.EOF {
			return n, err
		}
	}
}
