package fat

import (
	"errors"
	"fmt"
)

// checker looks at a volume by one of its FATs, and collects what is to be
// changed. It writes nothing.
type checker struct {
	*volume
	source  int // the FAT that is right: 0 for the first
	table   *table
	used    bitmap   // clusters that something reaches
	surplus []uint32 // starts of chains in used that are to be freed
	dirs    []directory
	buf     []byte // a cluster
	entries int
	patches []patch
	lost    int // what had to be given up of files and directories
	free    uint32
	report  Report
}

// patch is a change to a directory entry. It stays within one atom.
type patch struct {
	at   int64 // of the volume
	data [4]byte
	size int
}

// check decides which FAT is right and what is to be changed.
//
// Linux changes the first FAT in memory, copies the sector to the second, and
// writes them back in any order (fs/fat/fatent.c). It reads the first alone,
// as firmware does, and fsync(2) waits for both: they differ by what was not
// synced, of which either may be the newer one. The first is right, then,
// because every reader goes by it, unless it gives up something that the second
// has whole: a card that loses power can also lose a sector it was not asked to
// write.
func check(v *volume) (*checker, error) {
	c, err := checkBy(v, 0, nil)
	if err != nil && !errors.Is(err, ErrDamaged) || err == nil && c.lost == 0 {
		return c, err
	}
	equal, compareErr := v.equalTables()
	if compareErr != nil || equal {
		return c, errors.Join(err, compareErr)
	}
	second, secondErr := checkBy(v, 1, c.table)
	if secondErr == nil && second.lost == 0 {
		second.report.FromSecond = true
		return second, nil
	}
	if secondErr != nil && !errors.Is(secondErr, ErrDamaged) {
		return nil, secondErr
	}
	if err != nil {
		return nil, err
	}
	return checkBy(v, 0, second.table)
}

// checkBy checks by one FAT. The checker is there even with an error, for its
// memory.
func checkBy(v *volume, source int, memory *table) (*checker, error) {
	c := &checker{volume: v, source: source, used: newBitmap(int(v.clusters) + firstCluster), buf: make([]byte, v.clusterBytes)}
	var err error
	if c.table, err = v.readTable(source, memory); err != nil {
		return c, err
	}
	if c.table.get(0) != entryMask&^0xff|uint32(v.media) {
		return c, fmt.Errorf("FAT %d starts with %#x: %w", source+1, c.table.get(0), ErrDamaged)
	}
	if err := c.walk(); err != nil {
		return c, err
	}
	for _, first := range c.surplus {
		c.unclaim(first)
	}
	c.sweep()
	return c, c.checkInfo()
}

// sweep frees what nothing reaches.
func (c *checker) sweep() {
	for cluster := uint32(firstCluster); c.valid(cluster); cluster++ {
		value := c.table.get(cluster)
		if value != freeCluster && value != badCluster && !c.used.has(cluster) {
			c.table.set(cluster, freeCluster)
			c.report.Freed++
			value = freeCluster
		}
		if value == freeCluster {
			c.free++
		}
	}
}

// claimed is what claim found.
type claimed struct {
	count  int64  // clusters of the chain
	last   uint32 // of those that are needed
	extra  uint32 // the first that is not needed, 0 for none
	broken bool   // the chain leads to a free cluster, where it ought to end
}

// claim marks the chain from first as used, of which need clusters are needed.
// It returns ErrDamaged for one that meets another chain or itself, or that
// leads out of the volume.
func (c *checker) claim(first uint32, need int64) (claimed, error) {
	var got claimed
	for at := first; ; {
		if !c.valid(at) {
			return got, fmt.Errorf("a chain leads to cluster %#x of %d: %w", at, c.clusters, ErrDamaged)
		}
		next := c.table.get(at)
		if next == freeCluster {
			got.broken = true
			return got, nil
		}
		if c.used.has(at) {
			return got, fmt.Errorf("cluster %d belongs to two chains, or to a loop: %w", at, ErrDamaged)
		}
		c.used.add(at)
		got.count++
		if got.count <= need {
			got.last = at
		} else if got.extra == 0 {
			got.extra = at
		}
		if next >= endOfChain {
			return got, nil
		}
		at = next
	}
}

// unclaim undoes claim.
func (c *checker) unclaim(first uint32) {
	for at := first; c.valid(at) && c.used.has(at); at = c.table.get(at) {
		c.used.remove(at)
	}
}

// end makes cluster the last of its chain.
func (c *checker) end(cluster uint32) { c.table.set(cluster, lastCluster) }

// patch adds a change to a directory entry.
func (c *checker) patch(at int64, data ...byte) error {
	if len(c.patches) == maxPatches {
		return fmt.Errorf("there are more than %d bad directory entries: %w", maxPatches, ErrDamaged)
	}
	p := patch{at: at, size: len(data)}
	copy(p.data[:], data)
	c.patches = append(c.patches, p)
	return nil
}
