package fat32

import "fmt"

const (
	sectorBytes = 512
	mebibyte    = 1 << 20

	// fatCount is 2 on every volume that wants to be read everywhere.
	fatCount = 2
	// reservedSectors is the usual 32: boot sector, FSInfo, their copies.
	reservedSectors = 32
	// alignSectors keeps the data area on 4 KiB boundaries of the volume, so
	// that a cluster does not straddle two pages of an SD card.
	alignSectors = 8

	// minClusters: a volume is FAT32 because it has 65525 clusters or more,
	// whatever its boot sector claims. The specification asks to stay 16 away
	// from the limit, since many implementations are off by a few.
	minClusters = 65525 + 16
	// maxClusters is the last count whose numbers stay below the bad-cluster
	// mark 0x0FFFFFF7.
	maxClusters = 0x0FFFFFF5 - 2
	maxSectors  = 1<<32 - 1

	// pageSectors is the cluster size beyond which small volumes gain nothing.
	pageSectors = 8
	gibSectors  = (1 << 30) / sectorBytes
)

// errTooSmall is apart from ErrSize so that MinSize can go on from it.
var errTooSmall = fmt.Errorf("%w: too small for FAT32", ErrSize)

// geometry is where the regions of a volume lie, in sectors.
type geometry struct {
	sectors           int64 // of the whole volume
	sectorsPerCluster int64
	sectorsPerFAT     int64
	clusters          uint32 // in the data area; their numbers start at 2
}

func (g geometry) clusterBytes() int64 { return g.sectorsPerCluster * sectorBytes }

func (g geometry) fatOffset(n int64) int64 {
	return (reservedSectors + n*g.sectorsPerFAT) * sectorBytes
}

func (g geometry) clusterOffset(cluster uint32) int64 {
	return g.fatOffset(fatCount) + int64(cluster-2)*g.clusterBytes()
}

// chooseGeometry picks the largest cluster that leaves enough of them to be
// FAT32. Up to 8 GiB that is at most one 4 KiB page; beyond, Microsoft's table
// for default cluster sizes applies.
func chooseGeometry(sizeBytes int64) (geometry, error) {
	if sizeBytes <= 0 || sizeBytes%sectorBytes != 0 {
		return geometry{}, fmt.Errorf("fat32: %w: %d bytes is not a positive multiple of %d", ErrSize, sizeBytes, sectorBytes)
	}
	sectors := sizeBytes / sectorBytes
	if sectors > maxSectors {
		return geometry{}, fmt.Errorf("fat32: %w: %d bytes is beyond the 2 TiB that FAT32 can address", ErrSize, sizeBytes)
	}
	perCluster := int64(pageSectors)
	switch {
	case sectors > 32*gibSectors:
		perCluster = 64
	case sectors > 16*gibSectors:
		perCluster = 32
	case sectors > 8*gibSectors:
		perCluster = 16
	}
	for ; perCluster >= 1; perCluster /= 2 {
		if g := layOut(sectors, perCluster); g.clusters >= minClusters && g.clusters <= maxClusters {
			return g, nil
		}
	}
	return geometry{}, fmt.Errorf("fat32: %w: %d bytes hold fewer than %d clusters; use 33 MiB or more", errTooSmall, sizeBytes, minClusters)
}

// layOut sizes the FATs for the whole volume rather than for what remains of
// it after them. That wastes a few sectors and needs no search.
func layOut(sectors, perCluster int64) geometry {
	entries := sectors/perCluster + 2
	perFAT := roundUp((entries*4+sectorBytes-1)/sectorBytes, alignSectors)
	g := geometry{sectors: sectors, sectorsPerCluster: perCluster, sectorsPerFAT: perFAT}
	if data := sectors - reservedSectors - fatCount*perFAT; data > 0 {
		g.clusters = uint32(data / perCluster)
	}
	return g
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
