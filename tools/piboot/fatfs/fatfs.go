// Package fatfs reads a FAT32 volume as an fs.FS, without mounting it.
//
// Names are matched without regard to case, as the firmware of a Raspberry Pi
// does. Every walk along the volume's own pointers is bounded, so a damaged
// volume gives an error and never a loop.
//
// The structures follow the Microsoft FAT32 File System Specification
// (fatgen103) and ECMA-107. Sizes and offsets are in bytes.
package fatfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"unicode"
)

// ErrDamaged is the reason for errors about a volume that contradicts itself,
// or that is not FAT32 at all.
var ErrDamaged = errors.New("not a sound FAT32 volume")

const (
	// maxDirBytes: FAT allows a directory 65536 entries.
	maxDirBytes = 65536 * direntBytes
	// maxDepth keeps a directory that contains itself from being followed for
	// ever by whoever walks the tree.
	maxDepth = 64

	firstCluster = 2
	entryMask    = 0x0fffffff
	endOfChain   = 0x0ffffff8
	minClusters  = 65525
)

// FS is one volume. It reads on demand and keeps one block of the FAT in
// memory; it may be used from several goroutines.
type FS struct {
	r            io.ReaderAt
	fatOffset    int64
	fatBytes     int64
	dataOffset   int64
	clusterBytes int64
	clusters     uint32
	root         uint32

	mu      sync.Mutex
	block   []byte // of the FAT
	blockAt int64  // offset of block in the FAT
}

// Open reads the boot sector of the volume in the first size bytes of r. The
// volume must not change while it is in use.
func Open(r io.ReaderAt, size int64) (*FS, error) {
	var b [512]byte
	if _, err := r.ReadAt(b[:], 0); err != nil {
		return nil, fmt.Errorf("fatfs: reading the boot sector: %w", err)
	}
	le := binary.LittleEndian
	sectorBytes := int64(le.Uint16(b[11:]))
	perCluster := int64(b[13])
	if b[510] != 0x55 || b[511] != 0xaa || !powerOfTwo(sectorBytes, 512, 4096) || !powerOfTwo(perCluster, 1, 128) {
		return nil, fmt.Errorf("fatfs: %w: the boot sector has no signature or no sane sector and cluster sizes", ErrDamaged)
	}
	sectors := int64(le.Uint32(b[32:]))
	fatSectors := int64(le.Uint32(b[36:]))
	f := &FS{
		r:            r,
		fatOffset:    int64(le.Uint16(b[14:])) * sectorBytes,
		fatBytes:     fatSectors * sectorBytes,
		clusterBytes: perCluster * sectorBytes,
		root:         le.Uint32(b[44:]),
		blockAt:      -1,
	}
	f.dataOffset = f.fatOffset + int64(b[16])*f.fatBytes
	if le.Uint16(b[22:]) != 0 || fatSectors == 0 || b[16] == 0 || f.dataOffset >= sectors*sectorBytes || sectors*sectorBytes > size {
		return nil, fmt.Errorf("fatfs: %w: it has FAT12 or FAT16 tables, or regions beyond its %d bytes", ErrDamaged, size)
	}
	count := (sectors*sectorBytes - f.dataOffset) / f.clusterBytes
	if count < minClusters || (count+firstCluster)*4 > f.fatBytes {
		return nil, fmt.Errorf("fatfs: %w: %d clusters are too few for FAT32, or too many for its tables", ErrDamaged, count)
	}
	f.clusters = uint32(count)
	if !f.valid(f.root) {
		return nil, fmt.Errorf("fatfs: %w: its root directory is at cluster %d of %d", ErrDamaged, f.root, count)
	}
	return f, nil
}

func powerOfTwo(n, low, high int64) bool { return n >= low && n <= high && n&(n-1) == 0 }

func (f *FS) valid(cluster uint32) bool {
	return cluster >= firstCluster && cluster-firstCluster < f.clusters
}

// extent is a run of clusters that lie side by side.
type extent struct{ first, count uint32 }

// chain follows the clusters from first, at most limit of them: a chain that
// goes on is damaged, or a loop.
func (f *FS) chain(first uint32, limit int64) ([]extent, error) {
	var run []extent
	for c := first; limit > 0; limit-- {
		if !f.valid(c) {
			return nil, fmt.Errorf("fatfs: %w: a chain leads to cluster %d", ErrDamaged, c)
		}
		if n := len(run); n > 0 && run[n-1].first+run[n-1].count == c {
			run[n-1].count++
		} else {
			run = append(run, extent{c, 1})
		}
		next, err := f.next(c)
		if err != nil {
			return nil, err
		}
		if next >= endOfChain {
			return run, nil
		}
		c = next
	}
	return nil, fmt.Errorf("fatfs: %w: the chain from cluster %d is longer than its file, or a loop", ErrDamaged, first)
}

// next looks cluster up in the first FAT.
func (f *FS) next(cluster uint32) (uint32, error) {
	const blockBytes = 16 << 10
	f.mu.Lock()
	defer f.mu.Unlock()
	at := int64(cluster) * 4
	if start := at / blockBytes * blockBytes; f.blockAt != start {
		f.blockAt = -1
		f.block = append(f.block[:0], make([]byte, min(blockBytes, f.fatBytes-start))...)
		if _, err := f.r.ReadAt(f.block, f.fatOffset+start); err != nil {
			return 0, fmt.Errorf("fatfs: reading the FAT at %d: %w", start, err)
		}
		f.blockAt = start
	}
	return binary.LittleEndian.Uint32(f.block[at-f.blockAt:]) & entryMask, nil
}

// readDir gives the entries of the directory at cluster first.
func (f *FS) readDir(first uint32) ([]*entry, error) {
	extents, err := f.chain(first, min(int64(f.clusters), maxDirBytes/f.clusterBytes+1))
	if err != nil {
		return nil, err
	}
	body := &body{fs: f, extents: extents, size: totalBytes(extents, f.clusterBytes)}
	raw := make([]byte, body.size)
	if _, err := body.ReadAt(raw, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return parseDir(raw), nil
}

// lookup finds the entry for name, which fs.ValidPath has accepted.
func (f *FS) lookup(name string) (*entry, error) {
	at := &entry{name: ".", dir: true, first: f.root}
	if name == "." {
		return at, nil
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxDepth {
		return nil, fmt.Errorf("%w: more than %d directories deep", ErrDamaged, maxDepth)
	}
	for _, part := range parts {
		if !at.dir {
			return nil, fs.ErrNotExist
		}
		list, err := f.readDir(at.first)
		if err != nil {
			return nil, err
		}
		if at = find(list, part); at == nil {
			return nil, fs.ErrNotExist
		}
	}
	return at, nil
}

func find(list []*entry, name string) *entry {
	want := fold(name)
	for _, e := range list {
		if fold(e.name) == want || e.short == want {
			return e
		}
	}
	return nil
}

func fold(name string) string { return strings.Map(unicode.ToUpper, name) }

// Open opens a file or a directory for reading.
func (f *FS) Open(name string) (fs.File, error) {
	fail := func(err error) (fs.File, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	e, err := f.lookup(name)
	if err != nil {
		return fail(err)
	}
	if e.dir {
		return &dirFile{fs: f, entry: e}, nil
	}
	b := &body{fs: f, size: e.size}
	if e.size > 0 {
		if b.extents, err = f.chain(e.first, (e.size+f.clusterBytes-1)/f.clusterBytes); err != nil {
			return fail(err)
		}
		if have := totalBytes(b.extents, f.clusterBytes); have < e.size {
			return fail(fmt.Errorf("%w: %d bytes announced, %d in its clusters", ErrDamaged, e.size, have))
		}
	}
	return &file{SectionReader: io.NewSectionReader(b, 0, e.size), entry: e}, nil
}

func totalBytes(extents []extent, clusterBytes int64) int64 {
	var n int64
	for _, e := range extents {
		n += int64(e.count) * clusterBytes
	}
	return n
}
