package images

import (
	"fmt"
	"math"
	"strings"

	"machined/board"
	"machined/images/fat32"
	"machined/images/oci"
)

// containersDir is where the boot partition has the container images that the
// node imports on its first boot.
const containersDir = "images/"

// ContainerImage is a container image as the manifest has it.
type ContainerImage struct {
	Path   string `json:"path"` // on the boot partition
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// containerFiles lists the container images on the boot partition, after
// looking whether the board can run each.
func containerFiles(b board.Board, sources []*oci.Source) ([]fat32.File, []ContainerImage, error) {
	var files []fat32.File
	var list []ContainerImage
	taken := make(map[string]string) // by the name without case, as FAT has it
	for _, s := range sources {
		if !s.Has(b.Arch) {
			return nil, nil, fmt.Errorf("the image %s is for %s, and the board runs %s", s.Path, strings.Join(s.Arches, " and "), b.Arch)
		}
		if s.Size > math.MaxUint32 {
			return nil, nil, fmt.Errorf("the image %s has %d bytes, and a file on the boot partition can have %d", s.Path, s.Size, uint32(math.MaxUint32))
		}
		folded := strings.ToLower(s.Name())
		if other, ok := taken[folded]; ok {
			return nil, nil, fmt.Errorf("the images %s and %s are both called %s on the card; rename one", other, s.Path, s.Name())
		}
		taken[folded] = s.Path
		files = append(files, fat32.File{Path: containersDir + s.Name(), Size: s.Size, Open: s.Open})
		list = append(list, ContainerImage{containersDir + s.Name(), s.Size, s.SHA256})
	}
	return files, list, nil
}
