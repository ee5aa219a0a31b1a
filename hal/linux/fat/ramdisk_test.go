package fat

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
)

const (
	mib      = 1 << 20
	pageSize = 4096
)

// ramDisk is a sparse volume in memory that keeps a record of what is done to
// it.
type ramDisk struct {
	size   int64
	pages  map[int64][]byte // never changed, so that clones can share them
	record []op
	fail   int // the operation that fails, counted from 1
}

// op is a write, or a sync when data is nil.
type op struct {
	off  int64
	data []byte
}

func newRAMDisk(size int64) *ramDisk { return &ramDisk{size: size, pages: make(map[int64][]byte)} }

func (d *ramDisk) clone() *ramDisk { return &ramDisk{size: d.size, pages: maps.Clone(d.pages)} }

func (d *ramDisk) ReadAt(b []byte, off int64) (int, error) {
	n := int(max(min(int64(len(b)), d.size-off), 0))
	for done := 0; done < n; {
		at := (off + int64(done)) % pageSize
		next := min(done+int(pageSize-at), n)
		if p := d.pages[(off+int64(done))/pageSize]; p != nil {
			copy(b[done:next], p[at:])
		} else {
			clear(b[done:next])
		}
		done = next
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (d *ramDisk) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(b)) > d.size {
		return 0, errors.New("no space left on device")
	}
	d.record = append(d.record, op{off, bytes.Clone(b)})
	if len(d.record) == d.fail {
		return 0, errors.New("input/output error")
	}
	d.apply(off, b)
	return len(b), nil
}

func (d *ramDisk) Sync() error {
	d.record = append(d.record, op{})
	if len(d.record) == d.fail {
		return errors.New("input/output error")
	}
	return nil
}

func (d *ramDisk) apply(off int64, b []byte) {
	for len(b) > 0 {
		n := off / pageSize
		p := make([]byte, pageSize)
		copy(p, d.pages[n])
		done := copy(p[off%pageSize:], b)
		d.pages[n] = p
		b, off = b[done:], off+int64(done)
	}
}

// fill is an image writer's io.WriterAt, which leaves no record.
type fill struct{ *ramDisk }

func (f fill) WriteAt(b []byte, off int64) (int, error) { f.apply(off, b); return len(b), nil }

func (d *ramDisk) bytes(off int64, n int) []byte {
	b := make([]byte, n)
	if _, err := d.ReadAt(b, off); err != nil {
		panic(fmt.Sprintf("read %d bytes at %d: %v", n, off, err))
	}
	return b
}

// outcomes returns what the disk may hold after the operations done, by what
// became of the writes since the last sync.
func outcomes(before *ramDisk, done []op, seeds int) map[string]*ramDisk {
	synced := 0
	for i, o := range done {
		if o.data == nil {
			synced = i + 1
		}
	}
	base := before.clone()
	for _, o := range done[:synced] {
		base.apply(o.off, o.data)
	}
	loose := done[synced:]
	out := map[string]*ramDisk{"nothing unsynced": base}
	if len(loose) == 0 {
		return out
	}
	all, last := base.clone(), base.clone()
	for _, o := range loose {
		all.apply(o.off, o.data)
	}
	last.apply(loose[len(loose)-1].off, loose[len(loose)-1].data)
	out["all unsynced"], out["the last write alone"] = all, last
	for seed := range seeds {
		out[fmt.Sprint("some sectors, seed ", seed)] = someSectors(base, loose, uint64(seed))
	}
	return out
}

// someSectors lets each unsynced sector reach the disk or not.
func someSectors(base *ramDisk, loose []op, seed uint64) *ramDisk {
	disk, random := base.clone(), rand.New(rand.NewPCG(seed, uint64(len(loose))))
	for _, o := range loose {
		for at := 0; at < len(o.data); at += 512 {
			if random.IntN(2) == 0 {
				disk.apply(o.off+int64(at), o.data[at:min(at+512, len(o.data))])
			}
		}
	}
	return disk
}
