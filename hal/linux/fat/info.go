package fat

import (
	"encoding/binary"
	"fmt"
)

// checkInfo makes sure that what is about to be corrected is an FSInfo. A cut
// cannot damage its signatures: it is one sector.
func (c *checker) checkInfo() error {
	if c.infoAt == 0 {
		return nil
	}
	var b [atomicBytes]byte
	if _, err := c.disk.ReadAt(b[:], c.infoAt); err != nil {
		return fmt.Errorf("read the count of free clusters (FSInfo): %w", err)
	}
	if string(b[:4]) != "RRaA" || string(b[484:488]) != "rrAa" || binary.LittleEndian.Uint16(b[510:]) != 0xaa55 {
		return fmt.Errorf("the count of free clusters (FSInfo) has no signature: %w", ErrDamaged)
	}
	return nil
}

// firstFree is a hint for FSInfo: 0xFFFFFFFF for none.
func (c *checker) firstFree() uint32 {
	for cluster := uint32(firstCluster); c.valid(cluster); cluster++ {
		if c.table.get(cluster) == freeCluster {
			return cluster
		}
	}
	return 0xffffffff
}
