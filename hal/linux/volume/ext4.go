package volume

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Places in an ext4's superblock, which is at 1024 (fs/ext4/ext4.h).
const (
	super         = 1024
	superMagic    = super + 0x38
	superIncompat = super + 0x60
	superROCompat = super + 0x64
	superUUID     = super + 0x68
	superLabel    = super + 0x78
	superHashSeed = super + 0xec
	superChecksum = super + 0x3fc

	incompatCsumSeed  = 0x2000
	roCompatCsum      = 0x400
	labelSize         = 16 // bytes
	headSize          = 4096
	markerSize        = 512
	templateWriteSize = 256 << 10 // bytes at a time
	largeTemplateFrom = 256 * mib // size of a volume in bytes
	smallTemplate     = "small.ext4.gz"
	largeTemplate     = "large.ext4.gz"
	tailSize          = 1 * mib // what is cleared at a volume's end
	beingMade         = "machined: this volume is being made: "
)

// templateFor names the template for a volume of size bytes. The small one has
// blocks of 1 KiB and so the smallest journal: it is on the disk in a moment.
// The large one has blocks of 4 KiB, which a large volume needs.
func templateFor(size int64) string {
	if size < largeTemplateFrom {
		return smallTemplate
	}
	return largeTemplate
}

// relabel gives the file system that starts with head a name and identity of
// its own. The checksums of everything but the superblock hang on a seed that
// is apart from the UUID, so that it is free to change.
func relabel(head []byte, label string, uuid, hashSeed [16]byte) error {
	le := binary.LittleEndian
	sum := func() uint32 {
		return ^crc32.Checksum(head[super:superChecksum], crc32.MakeTable(crc32.Castagnoli))
	}
	switch {
	case le.Uint16(head[superMagic:]) != 0xef53:
		return errors.New("the template is no ext4")
	case le.Uint32(head[superIncompat:])&incompatCsumSeed == 0 || le.Uint32(head[superROCompat:])&roCompatCsum == 0:
		return errors.New("the template lacks metadata_csum or metadata_csum_seed, so its UUID cannot be changed")
	case le.Uint32(head[superChecksum:]) != sum():
		return errors.New("the checksum of the template's superblock is wrong")
	}
	clear(head[superLabel : superLabel+labelSize])
	copy(head[superLabel:superLabel+labelSize], label)
	copy(head[superUUID:], uuid[:])
	copy(head[superHashSeed:], hashSeed[:])
	le.PutUint32(head[superChecksum:], sum())
	return nil
}

// marker is the first sector of a volume whose partition is there before its
// file system. ext4 leaves its first 1,024 bytes alone.
func marker(label string) []byte {
	b := make([]byte, markerSize)
	copy(b, beingMade+label)
	return b
}

// makeExt4 writes the template to a volume of size bytes and waits until it is
// on the disk. Everything before the template's end is written, zeros too: the
// space may hold remains of another file system, which would turn up inside of
// this one. What is free behind it may hold anything, but the volume's end
// must not: RAID and ZFS keep signatures there.
//
// The superblock is written when all else is on the disk. inPlace marks the
// volume before and takes the mark away after, for a partition that exists.
func (p *Provisioner) makeExt4(to Disk, size int64, label string, inPlace bool) error {
	f, err := p.template(templateFor(size))
	if err != nil {
		return fmt.Errorf("open the template: %w", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("unpack the template: %w", err)
	}
	head := make([]byte, headSize)
	if _, err := io.ReadFull(z, head); err != nil {
		return fmt.Errorf("read the template: %w", err)
	}
	if err := relabel(head, label, p.uuid(), p.uuid()); err != nil {
		return err
	}
	if inPlace {
		if err := update(to, 0, marker(label)); err != nil {
			return err
		}
	}
	if err := copyBody(to, z, size); err != nil {
		return err
	}
	if err := clearRange(to, max(size-tailSize, size/2), size); err != nil {
		return err
	}
	return writeHead(to, head, inPlace)
}

// copyBody writes the template behind its head, and not a byte more than fits:
// behind the volume may be the backup of the GPT. It writes in large pieces,
// for half a page would have to be read before it is written.
func copyBody(to Disk, z io.Reader, size int64) error {
	b := make([]byte, templateWriteSize)
	for at := int64(headSize); ; {
		n, end, err := fill(z, b)
		if err != nil {
			return fmt.Errorf("read the template to its end: %w", err)
		}
		if at+int64(n) > size/2 {
			return fmt.Errorf("the template is too large for a volume of %d bytes", size)
		}
		if n > 0 {
			if _, err := to.WriteAt(b[:n], at); err != nil {
				return err
			}
		}
		if end {
			return to.Sync()
		}
		at += int64(n)
	}
}

// fill reads into b until it is full or the stream ends, which io.ReadFull
// does not tell from a stream that was cut: gzip calls that an unexpected end.
func fill(z io.Reader, b []byte) (n int, end bool, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = z.Read(b[n:])
		n += more
	}
	if errors.Is(err, io.EOF) {
		return n, true, nil
	}
	return n, false, err
}

func writeHead(to Disk, head []byte, inPlace bool) error {
	if _, err := to.WriteAt(head[markerSize:], markerSize); err != nil {
		return err
	}
	if inPlace {
		if err := to.Sync(); err != nil {
			return err
		}
	}
	if _, err := to.WriteAt(head[:markerSize], 0); err != nil {
		return err
	}
	return to.Sync()
}
