package fat32

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	rootCluster   = 2
	fsInfoSector  = 1
	backupSector  = 6
	mediaFixed    = 0xf8
	endOfChain    = 0x0fffffff
	bufferBytes   = 256 << 10
	bootSignature = 0xaa55
)

// volume is one run of Write.
type volume struct {
	w     io.WriterAt
	geo   geometry
	root  *node
	label [11]byte
	opts  Options

	order []*node // everything with clusters, in the order of the clusters
	next  uint32  // the first free cluster
}

// allocate gives every node its clusters: all directories first, so that a
// reader which looks a path up touches one small region, then the files.
func (v *volume) allocate() {
	v.next = rootCluster
	for _, dirs := range []bool{true, false} {
		v.root.walk(func(n *node) error {
			if n.isDir() != dirs {
				return nil
			}
			n.clusters = uint32(n.ownClusters(v.geo.clusterBytes()))
			if n.clusters > 0 {
				n.first = v.next
				v.next += n.clusters
				v.order = append(v.order, n)
			}
			return nil
		})
	}
}

// write puts the boot sector last: a run that fails leaves nothing that mounts.
func (v *volume) write() error {
	if err := v.writeFATs(); err != nil {
		return err
	}
	at := makeStamp(v.opts.Time)
	buf := make([]byte, bufferBytes)
	err := v.root.walk(func(n *node) error {
		if n.isDir() {
			return v.writeAt(n.encodeDir(v.label, at), v.geo.clusterOffset(n.first), "directory "+n.path)
		}
		return v.writeFile(n, buf)
	})
	if err != nil {
		return err
	}
	info, boot := v.fsInfo(), v.bootSector()
	for _, base := range []int64{backupSector, 0} {
		if err := v.writeAt(info, (base+fsInfoSector)*sectorBytes, "FSInfo"); err != nil {
			return err
		}
		if err := v.writeAt(boot, base*sectorBytes, "the boot sector"); err != nil {
			return err
		}
	}
	return nil
}

func (v *volume) writeAt(p []byte, off int64, what string) error {
	if _, err := v.w.WriteAt(p, off); err != nil {
		return fmt.Errorf("fat32: writing %s at byte %d: %w", what, off, err)
	}
	return nil
}

// writeFile streams one file and checks its announced size.
func (v *volume) writeFile(n *node, buf []byte) error {
	if n.file.Open == nil {
		if n.file.Size == 0 {
			return nil
		}
		return fmt.Errorf("fat32: %w: %q has %d bytes but no Open", ErrContents, n.path, n.file.Size)
	}
	r, err := n.file.Open()
	if err != nil {
		return fmt.Errorf("fat32: opening the contents of %q: %w", n.path, err)
	}
	defer r.Close()
	var done int64
	for {
		got, err := io.ReadFull(r, buf)
		if done+int64(got) > n.file.Size {
			return fmt.Errorf("fat32: %w: %q has more than the %d bytes that were announced", ErrContents, n.path, n.file.Size)
		}
		if got > 0 {
			if err := v.writeAt(buf[:got], v.geo.clusterOffset(n.first)+done, n.path); err != nil {
				return err
			}
			done += int64(got)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("fat32: reading the contents of %q after %d bytes: %w", n.path, done, err)
		}
	}
	if done != n.file.Size {
		return fmt.Errorf("fat32: %w: %q ends after %d of %d bytes", ErrContents, n.path, done, n.file.Size)
	}
	return nil
}

// writeFATs writes the used part of both tables; the rest is zeros already.
func (v *volume) writeFATs() error {
	buf := make([]byte, 0, bufferBytes)
	var off int64
	flush := func() error {
		for i := range int64(fatCount) {
			if err := v.writeAt(buf, v.geo.fatOffset(i)+off, "FAT"); err != nil {
				return err
			}
		}
		off += int64(len(buf))
		buf = buf[:0]
		return nil
	}
	// Entry 0 repeats the media byte. Entry 1 has the bits for "unmounted
	// cleanly" and "no read error" set.
	buf = binary.LittleEndian.AppendUint32(buf, 0x0fffff00|mediaFixed)
	buf = binary.LittleEndian.AppendUint32(buf, 0x0fffffff)
	for _, n := range v.order {
		last := n.first + n.clusters - 1
		for c := n.first; c <= last; c++ {
			entry := c + 1
			if c == last {
				entry = endOfChain
			}
			buf = binary.LittleEndian.AppendUint32(buf, entry)
			if len(buf) == cap(buf) {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

func (v *volume) bootSector() []byte {
	le := binary.LittleEndian
	b := make([]byte, sectorBytes)
	copy(b, "\xeb\x58\x90MSWIN4.1") // a jump over the fields; the name that the specification recommends
	le.PutUint16(b[11:], sectorBytes)
	b[13] = byte(v.geo.sectorsPerCluster)
	le.PutUint16(b[14:], reservedSectors)
	b[16] = fatCount
	b[21] = mediaFixed
	le.PutUint16(b[24:], 63)  // sectors per track: the translation that
	le.PutUint16(b[26:], 255) // BIOSes use for all but small disks
	le.PutUint32(b[28:], v.opts.HiddenSectors)
	le.PutUint32(b[32:], uint32(v.geo.sectors))
	le.PutUint32(b[36:], uint32(v.geo.sectorsPerFAT))
	le.PutUint32(b[44:], rootCluster)
	le.PutUint16(b[48:], fsInfoSector)
	le.PutUint16(b[50:], backupSector)
	b[64] = 0x80 // first hard disk
	b[66] = 0x29 // the three fields below are there
	le.PutUint32(b[67:], v.opts.Serial)
	copy(b[71:82], v.label[:])
	copy(b[82:90], "FAT32   ")
	copy(b[90:], "\xcd\x18\xf4\xeb\xfd") // int 0x18: let the BIOS try the next device; then halt
	le.PutUint16(b[510:], bootSignature)
	return b
}

func (v *volume) fsInfo() []byte {
	le := binary.LittleEndian
	b := make([]byte, sectorBytes)
	copy(b, "RRaA")
	copy(b[484:], "rrAa")
	free := v.geo.clusters - (v.next - rootCluster)
	hint := v.next
	if free == 0 {
		hint = 0xffffffff // unknown
	}
	le.PutUint32(b[488:], free)
	le.PutUint32(b[492:], hint)
	le.PutUint16(b[510:], bootSignature)
	return b
}
