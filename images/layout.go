package images

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	"machined/board"
	"machined/images/fat32"
	"machined/images/parts"
	"machined/rpi"
	"machined/x86"
)

// SlotFile is one file of a slot as its manifest has it.
type SlotFile struct {
	Path   string `json:"path"` // relative to the slot's directory
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// SlotManifest is manifest.json of a slot: what the slot must hold to be whole.
type SlotManifest struct {
	Version string     `json:"version"`
	Board   string     `json:"board"`
	Files   []SlotFile `json:"files"`
}

// ManifestName is the manifest's file in a slot.
const ManifestName = "manifest.json"

// source is a file to be placed, from the store or from memory.
type source struct {
	path string // in the volume or the slot
	part string // in the store; empty for data
	data []byte
}

// part places a part of the store under its own name.
func part(name string) source { return source{path: name, part: name} }

// slotSources lists the files of a slot of b, without its manifest.
func slotSources(b board.Board, store *parts.Store, slot string) []source {
	return append(contentSources(b, store), source{path: "cmdline.txt", data: []byte(commandLine(b, store, slot) + "\n")})
}

// contentSources lists the files that are the same in slot A and in slot B.
// Everything that differs between versions is here, the licences among it.
func contentSources(b board.Board, store *parts.Store) []source {
	kernel := kernelOf(b)
	files := []source{
		{path: "system.squashfs", part: "system/" + kernel},
		{path: "initramfs.img", part: "initramfs/" + b.Arch},
		part("licenses/linux-" + kernel + "/LICENSE"),
		part("licenses/linux-" + kernel + "/LICENSE.linux"),
		part("licenses/machined-" + b.Arch + "/LICENSES"),
	}
	if b.Firmware == board.UEFI {
		return append(files, source{path: "linux.efi", part: "kernel/" + kernel})
	}
	files = append(files, source{path: "kernel8.img", part: "kernel/" + kernel})
	if b.Name != "rpi-3a-plus" {
		return files
	}
	// The firmware picks the first tree by itself; the second is upstream's.
	for _, dtb := range []string{"bcm2710-rpi-3-b-plus.dtb", "bcm2837-rpi-3-a-plus.dtb"} {
		files = append(files, source{path: dtb, part: "dtb/" + dtb})
	}
	// config.txt asks for this one; the others are for the user's own lines.
	const needed = "overlays/disable-bt.dtbo"
	files = append(files, part(needed))
	for _, o := range store.Under("overlays") {
		if o != needed {
			files = append(files, part(o))
		}
	}
	// Without this file the firmware takes overlays from outside of the slot.
	return append(files, source{path: "overlays/README", data: []byte("The firmware uses the overlays of this slot because this file exists.\n")})
}

// kernelOf names the kernel of the store that the board runs.
func kernelOf(b board.Board) string {
	if b.Name == "rpi-3a-plus" {
		return "rpi"
	}
	return b.Arch
}

// commandLine is the kernel's argument line for a slot. Which slot runs is told
// by the marker in it, since the firmware hands over just this line.
func commandLine(b board.Board, store *parts.Store, slot string) string {
	return arguments(b, store) + " machined.slot=" + slot
}

// arguments are those of the kernel that are the same for both slots. The one
// that names the system image is how a node knows which one it runs.
func arguments(b board.Board, store *parts.Store) string {
	// Without panic= a kernel that panics would stop there, and a trial boot with
	// it.
	line := b.Console + " loglevel=4 panic=10 machined.image=" + systemHash(b, store)
	if b.Firmware == board.RaspberryPi {
		// Off by default in this kernel; services need it for their limits.
		return line + " cgroup_enable=memory"
	}
	// Without it the kernel does not look at the backup of a partition table that
	// a power cut left half written.
	return line + " gpt"
}

// systemHash is the SHA-256 of the board's system image as the store's index
// has it; the image's bytes are compared with it when they are placed.
func systemHash(b board.Board, store *parts.Store) string {
	name := "system/" + kernelOf(b)
	for _, p := range store.Index.Parts {
		if p.Name == name {
			return p.SHA256
		}
	}
	return ""
}

// bootSources lists the files outside of the slots that the firmware reads.
func bootSources(b board.Board, store *parts.Store) []source {
	if b.Firmware == board.UEFI {
		name := "BOOTX64.EFI"
		if b.Arch == "arm64" {
			name = "BOOTAA64.EFI"
		}
		return []source{
			{path: "EFI/BOOT/" + name, part: "loader/" + b.Arch + ".efi"},
			part("licenses/systemd-boot-" + b.Arch + "/copyright"),
			{path: "loader/loader.conf", data: []byte("timeout 0\ndefault " + x86.DefaultPattern + "\neditor no\n")},
			loaderEntry(b, store, "A"),
			loaderEntry(b, store, "B"),
		}
	}
	files := []source{{path: rpi.ConfigFile, data: []byte(configTxt(b, firstSlot))}, part("licenses/raspberrypi-firmware/LICENSE")}
	// gpu_mem=16 selects the _cd pair; the other is for a user who raises it.
	for _, f := range []string{"bootcode.bin", "start.elf", "fixup.dat", "start_cd.elf", "fixup_cd.dat", "LICENCE.broadcom"} {
		files = append(files, source{path: f, part: "firmware/" + f})
	}
	return files
}

// loaderEntry is the entry of a slot, which counts no boots: a new image is
// what there is to fall back to. The higher generation is the one that boots.
func loaderEntry(b board.Board, store *parts.Store, slot string) source {
	generation := 0
	if slot == firstSlot {
		generation = 1
	}
	return source{
		path: x86.Entries + "/" + x86.SlotEntry(slot).String(),
		data: []byte(x86.Entry(slot, generation, store.Index.Version, commandLine(b, store, slot))),
	}
}

// configTxt is the Raspberry Pi's config.txt.
func configTxt(b board.Board, slot string) string {
	own := []string{"enable_uart=1", "dtoverlay=disable-bt"}
	if b.Name != "rpi-3a-plus" {
		own = []string{"device_tree="} // the machine brings its own
	}
	return rpi.Config(slot[0], own...)
}

// file turns a source into a file of the volume, and returns its hash.
func (s source) file(store *parts.Store, prefix string) (fat32.File, SlotFile, error) {
	if s.part == "" {
		sum := sha256.Sum256(s.data)
		return fat32.File{
			Path: prefix + s.path, Size: int64(len(s.data)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(s.data)), nil },
		}, SlotFile{Path: s.path, Size: int64(len(s.data)), SHA256: hex.EncodeToString(sum[:])}, nil
	}
	part, err := store.Part(s.part)
	if err != nil {
		return fat32.File{}, SlotFile{}, err
	}
	return fat32.File{
		Path: prefix + s.path, Size: part.Size,
		Open: func() (io.ReadCloser, error) { return store.Open(part) },
	}, SlotFile{Path: s.path, Size: part.Size, SHA256: part.SHA256}, nil
}

// slotFiles returns the files of a slot with its manifest.
func slotFiles(b board.Board, store *parts.Store, slot string) ([]fat32.File, SlotManifest, error) {
	manifest := SlotManifest{Version: store.Index.Version, Board: b.Name}
	var files []fat32.File
	for _, s := range slotSources(b, store, slot) {
		f, entry, err := s.file(store, slot+"/")
		if err != nil {
			return nil, SlotManifest{}, err
		}
		files = append(files, f)
		manifest.Files = append(manifest.Files, entry)
	}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return nil, SlotManifest{}, err
	}
	f, _, err := source{path: ManifestName, data: append(text, '\n')}.file(store, slot+"/")
	return append(files, f), manifest, err
}
