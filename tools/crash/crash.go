// Package crash judges what a power cut has left on a boot partition: whether
// the firmware's own rules choose a slot, and whether that slot is whole.
package crash

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"machined/images"
	"machined/tools/piboot"
	"machined/tools/sdboot"
)

// Rules are those by which a firmware chooses.
type Rules int

const (
	Pi    Rules = iota // the Raspberry Pi's boot firmware, with the flag of a trial unset
	Trial              // the same, with the flag set: what follows a restart with that argument
	UEFI               // systemd-boot
)

// ErrBrick says that the board would not come up.
var ErrBrick = errors.New("the board would not boot")

// Choice is what a firmware boots.
type Choice struct {
	Slot string // "A" or "B"
	// From and To are the file that the loader renames before it starts the
	// slot, and its new name: paths on the partition. Empty for none.
	From, To string

	files   []string // that it reads, kernel first
	cmdline string
}

// Choose returns what the firmware boots. It is ErrBrick if that is nothing, or
// no slot.
func Choose(boot fs.FS, rules Rules) (Choice, error) {
	var c Choice
	var err error
	if rules == UEFI {
		c, err = chooseEntry(boot)
	} else {
		c, err = choosePrefix(boot, rules == Trial)
	}
	if err != nil {
		return Choice{}, fmt.Errorf("%w: %w", ErrBrick, err)
	}
	slot, _, _ := strings.Cut(c.files[0], "/")
	for _, f := range c.files {
		if !strings.HasPrefix(f, slot+"/") {
			return Choice{}, fmt.Errorf("%w: it reads %s, which is not of slot %s", ErrBrick, f, slot)
		}
	}
	if want := "machined.slot=" + slot; slot != "A" && slot != "B" || !slices.Contains(strings.Fields(c.cmdline), want) {
		return Choice{}, fmt.Errorf("%w: the command line is %q; want %s in it, as %s is of that slot", ErrBrick, c.cmdline, want, c.files[0])
	}
	c.Slot = slot
	return c, nil
}

func choosePrefix(boot fs.FS, tryboot bool) (Choice, error) {
	c, err := piboot.Decide(boot, tryboot)
	if err != nil {
		return Choice{}, err
	}
	if c.PrefixDropped {
		return Choice{}, fmt.Errorf("os_prefix is dropped: %s", c.DropReason)
	}
	if len(c.Initramfs) == 0 {
		return Choice{}, errors.New("there is no initramfs")
	}
	files := append([]string{c.Kernel, c.CmdlineFile}, c.Initramfs...)
	if c.DeviceTree != "" {
		files = append(files, c.DeviceTree)
	}
	return Choice{files: append(files, c.Overlays...), cmdline: c.Cmdline}, nil
}

func chooseEntry(boot fs.FS) (Choice, error) {
	e, err := sdboot.Select(boot, sdboot.Variables{})
	if err != nil {
		return Choice{}, err
	}
	c := Choice{files: append([]string{e.Linux}, e.Initrd...), cmdline: e.Options}
	if to := e.Renamed(); to != e.File {
		c.From, c.To = "loader/entries/"+e.File, "loader/entries/"+to
	}
	if len(e.Initrd) == 0 {
		return Choice{}, fmt.Errorf("the entry %s has no initrd", e.File)
	}
	return c, nil
}

// Check returns the slot that the firmware boots, having compared all of it with
// its manifest. It is ErrBrick if a file is not whole.
func Check(boot fs.FS, rules Rules) (slot string, err error) {
	c, err := Choose(boot, rules)
	if err != nil {
		return "", err
	}
	m, err := Whole(boot, c.Slot)
	if err != nil {
		return "", err
	}
	line, err := fs.ReadFile(boot, c.Slot+"/cmdline.txt")
	if err != nil {
		return "", fmt.Errorf("%w: the command line of slot %s: %w", ErrBrick, c.Slot, err)
	}
	if strings.TrimSpace(string(line)) != c.cmdline {
		return "", fmt.Errorf("%w: the command line is %q; want that of slot %s, %q", ErrBrick, c.cmdline, c.Slot, line)
	}
	for _, f := range c.files {
		if !slices.ContainsFunc(m.Files, func(listed images.SlotFile) bool { return c.Slot+"/"+listed.Path == f }) {
			return "", fmt.Errorf("%w: it reads %s, which the slot's manifest does not list", ErrBrick, f)
		}
	}
	return c.Slot, nil
}

// Whole compares the files of a slot with its manifest, which it returns.
func Whole(boot fs.FS, slot string) (images.SlotManifest, error) {
	var m images.SlotManifest
	text, err := fs.ReadFile(boot, slot+"/"+images.ManifestName)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && len(m.Files) == 0 {
		err = errors.New("it lists no files")
	}
	if err != nil {
		return m, fmt.Errorf("%w: the manifest of slot %s: %w", ErrBrick, slot, err)
	}
	for _, f := range m.Files {
		sum, size, err := hash(boot, slot+"/"+f.Path)
		if err == nil && (sum != f.SHA256 || size != f.Size) {
			err = fmt.Errorf("it has %d bytes and the SHA-256 %s; want %d and %s", size, sum, f.Size, f.SHA256)
		}
		if err != nil {
			return m, fmt.Errorf("%w: %s/%s: %w", ErrBrick, slot, f.Path, err)
		}
	}
	return m, nil
}

func hash(boot fs.FS, name string) (sum string, size int64, err error) {
	f, err := boot.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}
