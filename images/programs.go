package images

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"machined/board"
	"machined/images/fat32"
)

// programsDir is where the boot partition has the programs of services. On the
// node it is /boot/programs.
const programsDir = "programs/"

// ProgramFile is a program of a service as the manifest has it.
type ProgramFile struct {
	Path   string `json:"path"` // on the boot partition
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// programFiles lists the programs on the boot partition, by their names there,
// after looking whether the board can run each: the node has no library but what
// is in the program itself.
func programFiles(b board.Board, programs map[string]string) ([]fat32.File, []ProgramFile, error) {
	var files []fat32.File
	var list []ProgramFile
	taken := make(map[string]bool) // without case, as FAT has it
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		path := programs[name]
		if name == "" || strings.ContainsAny(name, `/\:*?"<>|`) || strings.HasPrefix(name, ".") || taken[strings.ToLower(name)] {
			return nil, nil, fmt.Errorf("put program %s on the card: %q is no name for it there; rename it", path, name)
		}
		taken[strings.ToLower(name)] = true
		if err := checkProgram(b, path); err != nil {
			return nil, nil, fmt.Errorf("put program %s on the card: %w", path, err)
		}
		f, err := programFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("put program %s on the card: %w", path, err)
		}
		f.Path = programsDir + name
		list = append(list, f)
		files = append(files, fat32.File{Path: f.Path, Size: f.Size, Open: func() (io.ReadCloser, error) { return os.Open(path) }})
	}
	return files, list, nil
}

func programFile(path string) (ProgramFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return ProgramFile{}, err
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, f)
	return ProgramFile{Size: size, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

func checkProgram(b board.Board, path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("it is no Linux program (%w)", err)
	}
	defer f.Close()
	want := elf.EM_AARCH64
	if b.Arch == "amd64" {
		want = elf.EM_X86_64
	}
	if f.Machine != want {
		return fmt.Errorf("it is for %v, and the board runs %s; build it for that", f.Machine, b.Arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("it needs libraries, which a node does not have; link it statically")
		}
	}
	return nil
}
