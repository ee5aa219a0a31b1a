package install

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"machined/hal"
	"machined/hal/signature"
)

// headSize is where the boot partition of an image begins, in bytes.
const headSize = 1 << 20

// Image is a disk image in gzip, from which the boot partition is taken.
type Image struct {
	Fetch func(ctx context.Context) (io.ReadCloser, error)
}

// Open implements Source.
func (i Image) Open(ctx context.Context) (io.ReadCloser, int64, error) {
	body, err := i.Fetch(ctx)
	if err != nil {
		return nil, 0, err
	}
	z, err := gzip.NewReader(body)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("the image is no gzip: %w", err), body.Close())
	}
	head := make([]byte, headSize)
	if _, err := io.ReadFull(z, head); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("read the image's partition table: %w", err), body.Close())
	}
	size, err := bootSize(head)
	if err != nil {
		return nil, 0, errors.Join(err, body.Close())
	}
	return &unpacked{z: z, left: size, body: body}, size, nil
}

// bootSize returns the size of the partition that begins behind the head.
func bootSize(head []byte) (int64, error) {
	const most = 1 << 40 // what is behind the head is zeros for the reader
	table, err := signature.ReadTable(headOnly(head), most, 512)
	if err != nil {
		return 0, fmt.Errorf("read the image's partition table: %w", err)
	}
	for _, p := range table.Partitions {
		if p.Start == headSize && p.Size > 0 && p.Size%headSize == 0 {
			return p.Size, nil
		}
	}
	return 0, fmt.Errorf("the image has no boot partition at 1 MiB: %w", hal.ErrInvalid)
}

// headOnly reads as a disk of which only the head is written.
type headOnly []byte

func (h headOnly) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	if off < int64(len(h)) {
		copy(b, h[off:])
	}
	return len(b), nil
}

// unpacked is the boot partition of an image. Its last bytes come only when the
// whole of the image has arrived, with the right sum.
type unpacked struct {
	z    *gzip.Reader
	left int64
	body io.Closer
}

func (u *unpacked) Read(b []byte) (int, error) {
	if u.left == 0 {
		return 0, io.EOF
	}
	n, err := u.z.Read(b[:min(int64(len(b)), u.left)])
	u.left -= int64(n)
	if errors.Is(err, io.EOF) && u.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	if u.left == 0 && (err == nil || errors.Is(err, io.EOF)) {
		if _, err = io.Copy(io.Discard, u.z); err != nil {
			return 0, fmt.Errorf("the rest of the image: %w", err)
		}
		return n, nil
	}
	return n, err
}

func (u *unpacked) Close() error { return u.body.Close() }

// Partition is the boot partition that a node was booted from, which is mounted
// read-only.
type Partition struct{ Device string }

// Open implements Source.
func (p Partition) Open(context.Context) (io.ReadCloser, int64, error) {
	f, err := os.Open(p.Device)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if size%headSize != 0 {
		return nil, 0, errors.Join(fmt.Errorf("the boot partition %s has %d bytes; want whole MiB: %w", p.Device, size, hal.ErrInvalid), f.Close())
	}
	return f, size, nil
}
