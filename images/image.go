// Package images builds what goes on a card or a disk, without root and
// without loop devices, and the same bytes from the same inputs.
package images

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"

	"machined/board"
	"machined/images/fat32"
	"machined/images/oci"
	"machined/images/parts"
)

const (
	sectorSize = 512
	alignment  = 1 << 20 // bytes, before and behind the boot partition
	// Label of the boot partition, by which the node finds it.
	Label = "MACHINED"
	// spare is what a boot partition has free beside two full slots, in bytes:
	// room for versions that have grown.
	spare = 128 << 20
	// firstSlot is the one that a new image boots.
	firstSlot = "A"
)

// Options says what to build.
type Options struct {
	Board board.Board
	Store *parts.Store
	// Config is the machine config, placed on the boot partition; nil for a
	// node that runs by its defaults. The caller has validated it.
	Config []byte
	// PKI holds the files of the node's identity (ca.crt, node.crt, node.key,
	// perhaps ca.key); empty for a node that makes its own.
	PKI map[string][]byte
	// Containers are the container images that the node imports on its first
	// boot.
	Containers []*oci.Source
	// Programs are files of static programs that services run, by the names
	// that they get in /boot/programs on the node.
	Programs map[string]string
	// Progress is told of the bytes written so far and in all; may be nil.
	Progress func(done, total int64)
}

// Image says what was built.
type Image struct {
	Path     string
	SHA256   string
	Size     int64 // bytes
	Manifest Manifest
}

// Build writes the image to path, with its manifest and SBOM beside it
// (ManifestPath, SBOMPath). The three take the place of an earlier image when
// all are complete; on an error there is nothing new, and an earlier image is
// as it was.
func Build(path string, o Options) (img Image, err error) {
	outputs := []string{ManifestPath(path), SBOMPath(path), path} // the image comes last
	defer func() {
		if err == nil {
			return
		}
		for _, p := range outputs {
			os.Remove(partial(p))
		}
		err = fmt.Errorf("build %s for %s: %w", path, o.Board.Name, err)
	}()
	if err := checkOutputs(outputs); err != nil {
		return Image{}, err
	}
	files, slot, err := bootFiles(o)
	if err != nil {
		return Image{}, err
	}
	containers, listed, err := containerFiles(o.Board, o.Containers)
	if err != nil {
		return Image{}, err
	}
	programs, kept, err := programFiles(o.Board, o.Programs)
	if err != nil {
		return Image{}, err
	}
	files = append(append(files, containers...), programs...)
	size, err := fat32.MinSize(files, spare)
	if err != nil {
		return Image{}, err
	}
	size = (size + alignment - 1) / alignment * alignment
	if err := writeImage(partial(path), size, files, identity(o, kept), o); err != nil {
		return Image{}, err
	}
	img = Image{Path: path}
	if img.SHA256, img.Size, err = parts.Hash(partial(path)); err != nil {
		return Image{}, err
	}
	img.Manifest = newManifest(filepath.Base(path), img, slot, o)
	img.Manifest.Containers, img.Manifest.Programs = listed, kept
	if err := writeManifest(partial(ManifestPath(path)), img.Manifest); err != nil {
		return Image{}, err
	}
	if err := writeSBOM(partial(SBOMPath(path)), o); err != nil {
		return Image{}, err
	}
	for _, p := range outputs {
		if err := os.Rename(partial(p), p); err != nil {
			return Image{}, err
		}
	}
	return img, nil
}

// ManifestPath returns where the manifest of the image at path is.
func ManifestPath(path string) string { return path + ".manifest.json" }

// SBOMPath returns where the bill of materials of the image at path is.
func SBOMPath(path string) string { return path + ".sbom.cdx.json" }

func partial(path string) string { return path + ".partial" }

// checkOutputs refuses what a finished file could not take the place of, so
// that nothing fails between the first and the last of them.
func checkOutputs(paths []string) error {
	for _, p := range paths {
		info, err := os.Stat(p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s exists and is no file; write to a file and copy that", p)
		}
	}
	return nil
}

// bootFiles lists everything on the boot partition.
func bootFiles(o Options) ([]fat32.File, SlotManifest, error) {
	var files []fat32.File
	var manifest SlotManifest
	// Both slots are whole from the start, so that no fallback finds an empty
	// one.
	for _, slot := range []string{firstSlot, "B"} {
		f, m, err := slotFiles(o.Board, o.Store, slot)
		if err != nil {
			return nil, SlotManifest{}, err
		}
		files = append(files, f...)
		if slot == firstSlot {
			manifest = m
		}
	}
	rest := bootSources(o.Board, o.Store)
	if o.Config != nil {
		rest = append(rest, source{path: "machined/config.yaml", data: o.Config})
	}
	for _, name := range sortedKeys(o.PKI) {
		rest = append(rest, source{path: "machined/pki/" + name, data: o.PKI[name]})
	}
	for _, s := range rest {
		f, _, err := s.file(o.Store, "")
		if err != nil {
			return nil, SlotManifest{}, err
		}
		files = append(files, f)
	}
	return files, manifest, nil
}

// identity returns 16 bytes that stand for the image's inputs: disks and
// volumes carry it where they would carry random numbers.
func identity(o Options, programs []ProgramFile) [16]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%d\n%d\n", o.Board.Name, o.Store.Index.Version, len(o.Config), len(o.PKI))
	for _, p := range usedParts(o) {
		fmt.Fprintf(h, "%s %s\n", p.Name, p.SHA256)
	}
	h.Write(o.Config)
	for _, name := range sortedKeys(o.PKI) {
		fmt.Fprintf(h, "%s %d\n", name, len(o.PKI[name]))
		h.Write(o.PKI[name])
	}
	for _, c := range o.Containers {
		fmt.Fprintf(h, "%s %s\n", c.Name(), c.SHA256)
	}
	for _, p := range programs {
		fmt.Fprintf(h, "%s %s\n", p.Path, p.SHA256)
	}
	var id [16]byte
	copy(id[:], h.Sum(nil))
	return id
}

func sortedKeys(m map[string][]byte) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func writeImage(path string, bootSize int64, files []fat32.File, id [16]byte, o Options) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	total := alignment + bootSize
	if o.Board.Firmware == board.UEFI {
		total += alignment // the backup table
	}
	if err := f.Truncate(total); err != nil {
		return err
	}
	err = fat32.Write(&offsetWriter{f: f, base: alignment, progress: o.Progress, total: contentSize(files)}, bootSize, files, fat32.Options{
		Label: Label, Serial: binary.LittleEndian.Uint32(id[:4]),
		Time: time.Unix(o.Store.Index.BuildTime, 0).UTC(), HiddenSectors: alignment / sectorSize,
	})
	if err != nil {
		return err
	}
	if o.Board.Firmware == board.UEFI {
		err = writeGPT(f, total, bootSize, id)
	} else {
		err = writeMBR(f, total, bootSize, id)
	}
	if err != nil {
		return fmt.Errorf("write the partition table: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}

func contentSize(files []fat32.File) int64 {
	var n int64
	for _, f := range files {
		n += f.Size
	}
	return n
}

func writeGPT(f *os.File, total, bootSize int64, id [16]byte) error {
	table := &gpt.Table{
		LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize, ProtectiveMBR: true, GUID: guid(id, 1),
		Partitions: []*gpt.Partition{{
			Index: 1, Name: "EFI", Type: gpt.EFISystemPartition, GUID: guid(id, 2),
			Start: alignment / sectorSize, Size: uint64(bootSize), End: uint64((alignment+bootSize)/sectorSize) - 1,
		}},
	}
	return table.Write(f, total)
}

// guid makes a version 8 UUID (RFC 9562) of the image's identity.
func guid(id [16]byte, n byte) string {
	id[15] ^= n
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	h := strings.ToUpper(hex.EncodeToString(id[:]))
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func writeMBR(f *os.File, total, bootSize int64, id [16]byte) error {
	table := &mbr.Table{
		LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize,
		Partitions: []*mbr.Partition{{
			Index: 1, Bootable: true, Type: mbr.Fat32LBA, Start: alignment / sectorSize, Size: uint32(bootSize / sectorSize),
		}},
	}
	if err := table.Write(f, total); err != nil {
		return err
	}
	// The disk signature, which the table's writer leaves alone.
	const signature = 440
	_, err := f.WriteAt(id[4:8], signature)
	return err
}

// offsetWriter writes a volume into its place on the disk.
type offsetWriter struct {
	f           *os.File
	base        int64
	done, total int64
	progress    func(done, total int64)
}

func (w *offsetWriter) WriteAt(b []byte, off int64) (int, error) {
	n, err := w.f.WriteAt(b, w.base+off)
	w.done += int64(n)
	if w.progress != nil {
		w.progress(min(w.done, w.total), w.total)
	}
	return n, err
}
