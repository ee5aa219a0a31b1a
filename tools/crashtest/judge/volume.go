// Package judge says what a power cut has left of a boot partition: what the
// firmware boots of it, whether its file system can be repaired, and whether a
// node can be upgraded after that.
package judge

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"machined/tools/piboot/fatfs"
)

// Volume is a boot partition in a file that is mapped to memory: programs see
// each change.
type Volume struct {
	file *os.File
	data []byte
	end  int64 // of what was ever written, in bytes
}

const (
	blockBytes = 4096 // that Copy compares at once
	// marginBytes is how far beyond what is used a repair is believed to write.
	marginBytes = 1 << 20
)

// NewVolume makes a volume of size bytes, all zeros.
func NewVolume(path string, size int64) (*Volume, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	v := &Volume{file: file}
	if err = file.Truncate(size); err == nil {
		v.data, err = unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map %s: %w", path, err), file.Close())
	}
	return v, nil
}

// Close removes the file.
func (v *Volume) Close() error {
	return errors.Join(unix.Munmap(v.data), v.file.Close(), os.Remove(v.file.Name()))
}

// Sector returns a sector of 512 bytes, which may be written.
func (v *Volume) Sector(number int64) []byte {
	at := number * 512
	v.end = max(v.end, at+512)
	return v.data[at : at+512]
}

// ReadAt implements io.ReaderAt.
func (v *Volume) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(v.data)) {
		return 0, io.EOF
	}
	n := copy(b, v.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (v *Volume) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(b)) > int64(len(v.data)) {
		return 0, io.ErrShortWrite
	}
	v.end = max(v.end, off+int64(len(b)))
	return copy(v.data[off:], b), nil
}

// Sync does nothing: the power of a mapped file does not go.
func (v *Volume) Sync() error { return nil }

// Files returns the files of the volume.
func (v *Volume) Files() (*fatfs.FS, error) { return fatfs.Open(v, int64(len(v.data))) }

// Copy makes v the same as from, of the same size. It reads what either has, and
// a margin: there are zeros or nobody's data behind.
func (v *Volume) Copy(from *Volume) {
	v.end = min(max(v.end, from.end)+marginBytes, int64(len(v.data)))
	for at := int64(0); at < v.end; at += blockBytes {
		to := min(at+blockBytes, v.end)
		if string(v.data[at:to]) != string(from.data[at:to]) {
			copy(v.data[at:to], from.data[at:to])
		}
	}
	v.end = from.end
}

// Save writes the volume to a file that is all zeros.
func (v *Volume) Save(to io.WriterAt) error {
	_, err := to.WriteAt(v.data[:v.end], 0)
	return err
}
