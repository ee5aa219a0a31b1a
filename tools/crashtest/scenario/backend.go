// Package scenario is what a node does with its boot partition while the power
// may go: in a guest, over the kernel's file system, and in memory.
package scenario

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"machined/hal"
	"machined/rpi"
	"machined/tools/crash"
	"machined/x86"
)

// Backend is a bootloader, with the boot partition of a board that has it.
type Backend struct {
	Name  string // "rpi" or "x86"
	Rules crash.Rules
	// Bootloader returns the real one.
	Bootloader func(hal.BootFiles) hal.Bootloader

	files   []string // of a slot
	outside map[string]string
}

// Backends returns all of them.
func Backends() []Backend {
	return []Backend{raspberryPi(), uefi()}
}

// Find returns the backend of that name.
func Find(name string) (Backend, error) {
	for _, b := range Backends() {
		if b.Name == name {
			return b, nil
		}
	}
	return Backend{}, fmt.Errorf("there is no backend %q", name)
}

func raspberryPi() Backend {
	b := Backend{
		Name: "rpi", Rules: crash.Pi,
		Bootloader: func(f hal.BootFiles) hal.Bootloader { return &rpi.Bootloader{Files: f} },
		files:      []string{"system.squashfs", "kernel8.img", "initramfs.img", "bcm2710-rpi-3-b-plus.dtb", "bcm2837-rpi-3-a-plus.dtb", "overlays/README", "overlays/disable-bt.dtbo"},
		outside: map[string]string{
			"bootcode.bin": strings.Repeat("b", 9000), "start_cd.elf": strings.Repeat("s", 30000), "fixup_cd.dat": "f",
			"machined/config.yaml": "machine: {}\n",
			"config.txt":           rpi.Config('A', "enable_uart=1", "dtoverlay=disable-bt") + "\n# mine\n[pi3]\ndtparam=audio=on\n",
		},
	}
	// More than a cluster's entries: the directory grows while it is written.
	for i := range 12 {
		b.files = append(b.files, fmt.Sprintf("overlays/an-overlay-with-a-long-name-%d.dtbo", i))
	}
	return b
}

func uefi() Backend {
	return Backend{
		Name: "x86", Rules: crash.UEFI,
		Bootloader: func(f hal.BootFiles) hal.Bootloader { return &x86.Bootloader{Files: f} },
		files:      []string{"system.squashfs", "initramfs.img", "linux.efi"},
		outside: map[string]string{
			"EFI/BOOT/BOOTX64.EFI": strings.Repeat("l", 40000), "machined/config.yaml": "machine: {}\n",
			"loader/loader.conf":             "timeout 0\ndefault " + x86.DefaultPattern + "\neditor no\n",
			"loader/entries/machined-a.conf": x86.Entry("A", 1, "v1", "console=ttyS0 machined.slot=A"),
			"loader/entries/machined-b.conf": x86.Entry("B", 0, "v1", "console=ttyS0 machined.slot=B"),
			"loader/entries/other.conf":      "title another system\nlinux /other/linux.efi\n", "other/linux.efi": "o",
		},
	}
}

// Tree returns the files of a new image by path: both slots whole, version 1.
func (b Backend) Tree() map[string][]byte {
	tree := map[string][]byte{}
	for path, text := range b.outside {
		tree[path] = []byte(text)
	}
	for _, slot := range []string{"A", "B"} {
		m := hal.SlotManifest{Version: "v1", Board: "test"}
		add := func(path string, data []byte) {
			tree[slot+"/"+path] = data
			m.Files = append(m.Files, hal.SlotFile{Path: path, Size: int64(len(data)), SHA256: sha256.Sum256(data)})
		}
		for _, f := range b.files {
			add(f, data("v1", f))
		}
		add(hal.CommandLineName, []byte("console=ttyS0 machined.slot="+slot+"\n"))
		tree[slot+"/"+hal.SlotManifestName] = []byte(m.String())
	}
	return tree
}

// data is the content of a file of a version: the large ones some tens of KiB,
// and no version shares a sector of text with another.
func data(version, path string) []byte {
	size := map[string]int{"system.squashfs": 60_000, "kernel8.img": 30_000, "linux.efi": 30_000, "initramfs.img": 15_000}[path]
	line := []byte(version + " " + path + "\n")
	return bytes.Repeat(line, 1+max(size, 900)/len(line))
}

// content is what a bundle of a version says.
func (b Backend) content(version string) hal.SlotContent {
	c := hal.SlotContent{Version: version, Board: "test", Arguments: "console=ttyS0 machined.image=" + version + strings.Repeat(" user.word", 60)} // beyond a sector
	for _, f := range b.files {
		d := data(version, f)
		c.Files = append(c.Files, hal.SlotFile{Path: f, Size: int64(len(d)), SHA256: sha256.Sum256(d)})
	}
	return c
}

// stage installs a version in the slot that does not run.
func (b Backend) stage(files hal.BootFiles, running, version string) error {
	w, err := b.Bootloader(files).Stage(running, b.content(version))
	if err != nil {
		return err
	}
	for _, path := range b.files {
		if err := writeFile(w, path, data(version, path)); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	return w.Finish()
}

func writeFile(w hal.SlotWriter, path string, data []byte) error {
	file, err := w.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, bytes.NewReader(data))
	return errors.Join(err, file.Close())
}
