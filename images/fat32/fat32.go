// Package fat32 formats a FAT32 volume that holds a given tree of files.
//
// It writes in one pass, needs neither root nor a loop device, and asks the
// operating system and the clock for nothing: the same arguments give the same
// bytes, which is what makes a whole boot image reproducible. A volume is
// written once and never edited here, so every file and directory occupies one
// contiguous run of clusters.
//
// The structures follow the Microsoft FAT32 File System Specification
// (fatgen103) and ECMA-107. Sizes are in bytes unless a name says sectors;
// a sector is 512 bytes.
package fat32

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// The reasons for which Write and MinSize refuse, for errors.Is. The error
// around them says which path or size is meant.
var (
	ErrSize      = errors.New("unusable volume size")
	ErrFull      = errors.New("the files do not fit")
	ErrName      = errors.New("unusable name")
	ErrDuplicate = errors.New("duplicate path")
	ErrContents  = errors.New("the contents do not match the announced size")
)

// Options fixes everything that would otherwise differ between two runs.
type Options struct {
	// Label is the volume label: up to 11 characters, upper-cased, from the
	// part of the OEM character set that every code page shares. Empty means
	// that the volume has none.
	Label string
	// Serial is the volume ID. Linux shows it as the UUID XXXX-XXXX.
	Serial uint32
	// Time stamps every entry. It is stored in UTC with a resolution of two
	// seconds, and clamped to what FAT can say: 1980 to 2107.
	Time time.Time
	// HiddenSectors is the number of sectors before the volume on the disk,
	// that is, the partition's first LBA.
	HiddenSectors uint32
}

// File is one file of the tree. Its contents are opened and streamed when
// their turn to be written comes.
type File struct {
	// Path is slash-separated and relative, for example "A/overlays/README".
	// The directories on the way are implied. A path that ends in a slash is
	// a directory, for those that would be empty otherwise.
	Path string
	// Size is in bytes and must match what Open yields.
	Size int64
	// Open yields the contents. Write closes the reader.
	Open func() (io.ReadCloser, error)
}

// Write formats the first sizeBytes bytes of w, a multiple of 512, as a FAT32
// volume that holds files. The order of files does not matter.
//
// w must read as zeros where nothing has been written, as a fresh sparse file
// does: free clusters, and the tail of the FATs, are left alone. Everything
// that can be refused without reading the files is refused before the first
// write; after any later error the volume is unusable.
func Write(w io.WriterAt, sizeBytes int64, files []File, opts Options) error {
	label, err := packLabel(opts.Label)
	if err != nil {
		return err
	}
	root, err := buildTree(files)
	if err != nil {
		return err
	}
	root.labelled = opts.Label != ""
	geo, err := chooseGeometry(sizeBytes)
	if err != nil {
		return err
	}
	used := root.clustersBelow(geo.clusterBytes())
	if used > int64(geo.clusters) {
		return fmt.Errorf("fat32: %w: they need %d bytes in clusters of %d, the volume of %d bytes offers %d; make it larger (MinSize tells)",
			ErrFull, used*geo.clusterBytes(), geo.clusterBytes(), sizeBytes, int64(geo.clusters)*geo.clusterBytes())
	}
	v := volume{w: w, geo: geo, root: root, label: label, opts: opts}
	v.allocate()
	return v.write()
}

// MinSize gives the size in bytes, a multiple of 1 MiB, of the smallest volume
// that Write accepts for files with at least spare bytes left in free clusters.
// It never goes below what FAT32 takes at all, about 33 MiB. The errors are
// those of Write for the same files.
func MinSize(files []File, spare int64) (int64, error) {
	root, err := buildTree(files)
	if err != nil {
		return 0, err
	}
	root.labelled = true // one entry more than a volume without a label needs
	size := roundUp(minClusters*sectorBytes, mebibyte)
	for {
		geo, err := chooseGeometry(size)
		if errors.Is(err, errTooSmall) {
			size += mebibyte
			continue
		}
		if err != nil {
			return 0, err
		}
		cluster := geo.clusterBytes()
		missing := root.clustersBelow(cluster)*cluster + max(spare, 0) - int64(geo.clusters)*cluster
		if missing <= 0 {
			return size, nil
		}
		size += roundUp(missing, mebibyte)
	}
}
