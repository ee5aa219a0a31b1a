package qemu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// makeDisk copies image to disk, with holes for its zeros, and enlarges it as
// a card is larger than the image that is written to it. A disk that exists is
// left as it is.
func makeDisk(disk, image string, size int64) error {
	if _, err := os.Stat(disk); err == nil {
		return nil
	}
	info, err := os.Stat(image)
	if err != nil {
		return fmt.Errorf("make a disk of the image: %w", err)
	}
	for size < info.Size() {
		size *= 2
	}
	partial := disk + ".partial"
	if err := copySparse(partial, image, size); err != nil {
		os.Remove(partial)
		return fmt.Errorf("copy %s to %s: %w", image, partial, err)
	}
	return os.Rename(partial, disk)
}

// copySparse makes a file of size bytes that begins with from's contents.
// Blocks of zeros become holes.
func copySparse(to, from string, size int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := out.Truncate(size); err != nil {
		return err
	}
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); ; off += int64(len(block)) {
		n, err := io.ReadFull(in, block)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if n == 0 {
			return out.Close()
		}
		if !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], off); err != nil {
				return err
			}
		}
	}
}
