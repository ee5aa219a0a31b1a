// Package ext4 makes the small file systems that a node's volumes start from,
// with the real mke2fs. A node writes one to a new partition and grows it to
// the partition's size; it has no mkfs of its own.
package ext4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// Template is a file system to be made. Its label and UUID are replaced on the
// node, for which metadata_csum_seed keeps the checksums apart from the UUID.
type Template struct {
	Name    string // of the gzipped file
	block   int    // bytes
	inodes  int    // a group, which the first group's size in blocks makes 8 or 128 MiB
	journal int    // MiB
	size    string
}

// Templates returns those that a slot carries. Blocks of 1 KiB allow a journal
// of 1 MiB, and so a file system that is written in less than a second even
// without DMA. With blocks of 4 KiB the least is 4 MiB.
func Templates() []Template {
	return []Template{
		{Name: "small.ext4.gz", block: 1024, inodes: 128, journal: 1, size: "3M"},
		{Name: "large.ext4.gz", block: 4096, inodes: 8192, journal: 4, size: "16M"},
	}
}

// Make makes the template's image at path, as of buildTime in seconds since
// 1970, and cuts off the free blocks at its end: what they hold does not
// matter, and they would have to be written. run runs a program.
func (t Template) Make(path string, buildTime int64, run func(env []string, name string, args ...string) error) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	const uuid = "6d616368-696e-6564-5354-415445000000"
	err := run([]string{"E2FSPROGS_FAKE_TIME=" + strconv.FormatInt(buildTime, 10), "MKE2FS_DEVICE_SECTSIZE=512"},
		"mke2fs", "-q", "-t", "ext4", "-b", strconv.Itoa(t.block), "-I", "256", "-N", strconv.Itoa(t.inodes), "-m", "0", "-L", "TEMPLATE", "-U", uuid,
		"-E", "hash_seed="+uuid+",lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0", "-J", "size="+strconv.Itoa(t.journal),
		"-O", "64bit,metadata_csum,metadata_csum_seed,^resize_inode,meta_bg", path, t.size)
	if err != nil {
		return err
	}
	return trim(path)
}

// trim cuts an image behind the last block in use. The image has one block
// group, whose bitmap tells (fs/ext4/ext4.h).
func trim(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	super := make([]byte, 1024)
	if _, err := f.ReadAt(super, 1024); err != nil {
		return fmt.Errorf("read the superblock of %s: %w", path, err)
	}
	le := binary.LittleEndian
	blocks, first, size := int64(le.Uint32(super[4:])), int64(le.Uint32(super[20:])), int64(1024)<<le.Uint32(super[24:])
	if perGroup := int64(le.Uint32(super[32:])); blocks-first > perGroup {
		return fmt.Errorf("%s has more than one group of %d blocks", path, perGroup)
	}
	var descriptor [4]byte // begins with the place of the bitmap
	if _, err := f.ReadAt(descriptor[:], (first+1)*size); err != nil {
		return fmt.Errorf("read the group descriptor of %s: %w", path, err)
	}
	bitmap := make([]byte, (blocks-first+7)/8)
	if _, err := f.ReadAt(bitmap, int64(le.Uint32(descriptor[:]))*size); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the block bitmap of %s: %w", path, err)
	}
	for i := blocks - first - 1; i >= 0; i-- { // the bits behind are padding
		if bitmap[i/8]>>(i%8)&1 != 0 {
			return f.Truncate((first + i + 1) * size)
		}
	}
	return fmt.Errorf("%s has no block in use", path)
}
