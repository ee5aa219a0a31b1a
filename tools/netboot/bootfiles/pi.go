package bootfiles

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"machined/tools/netboot/tftp"
)

const (
	piConfig = "config.txt"
	// piTreeFile is the device tree of the model that a Pi's directory is built for.
	piTreeFile = "bcm2710-rpi-3-b-plus.dtb"
	// maxPiConfig bounds config.txt, in bytes.
	maxPiConfig = 64 << 10
)

// Serial returns the serial number by which a Raspberry Pi asks for a file, "" for a
// name without one.
func (f *Files) Serial(name string) string {
	clean, _ := tftp.Clean(name)
	dir, rest, _ := strings.Cut(clean, "/")
	if _, board := f.index.Boards[dir]; board || rest == "" || !isSerial(dir) {
		return ""
	}
	return strings.ToLower(dir)
}

// isSerial tells the directory that a Pi names by its serial: eight hex digits.
func isSerial(s string) bool {
	return len(s) == 8 && strings.Trim(strings.ToLower(s), "0123456789abcdef") == ""
}

// piName is a clean name without the serial number.
func piName(clean string) string {
	if dir, rest, _ := strings.Cut(clean, "/"); isSerial(dir) && rest != "" {
		return rest
	}
	return clean
}

// ofPi opens a file of the tree of the Raspberry Pi.
func (f *Files) ofPi(a Asks, name string) (Content, error) {
	for _, b := range f.index.Boards {
		if b.Tree == "" {
			continue
		}
		if name != cmdline {
			return f.plain(b.Tree + "/" + name)
		}
		more, err := f.arguments(a)
		if err != nil {
			return nil, err
		}
		return memory([]byte(b.Arguments + " " + more + "\n")), nil
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

// PiFiles are the names of what no Raspberry Pi boots without, by the config.txt of a
// tree. Some of them may be missing: see Check.
func (f *Files) PiFiles(tree string) []string {
	c := f.piConfig(tree)
	names := append([]string{"bootcode.bin", piConfig}, f.piFirmware(tree, c)...)
	kernels := c.all("kernel")
	if len(kernels) == 0 {
		kernels = []string{"kernel8.img"}
	}
	names = append(names, kernels...)
	for _, line := range c.all("initramfs") { // a list of files, and where they go
		files, _, _ := strings.Cut(line, " ")
		names = append(names, strings.Split(files, ",")...)
	}
	trees := c.all("device_tree")
	if len(trees) == 0 {
		trees, _ = fs.Glob(f.root.FS(), tree+"/*.dtb")
		for i := range trees {
			trees[i] = strings.TrimPrefix(trees[i], tree+"/")
		}
	}
	if len(trees) == 0 {
		trees = []string{piTreeFile}
	}
	names = append(names, trees...)
	slices.Sort(names)
	return slices.Compact(names)
}

// piFirmware are the files of the firmware: those of models up to the 3, or of the 4,
// or both. A set is wanted whole if one file of it is there.
func (f *Files) piFirmware(tree string, c piSettings) (names []string) {
	for _, set := range piSets(c) {
		if slices.ContainsFunc(set, func(name string) bool { return f.Check(tree+"/"+name) == nil }) {
			names = append(names, set...)
		}
	}
	if len(names) == 0 {
		names = piSets(c)[0]
	}
	return names
}

// piSets are the firmware of models up to the 3, and of the 4. With 16 MB for the GPU
// it is the small one, which is looked for behind the other.
func piSets(c piSettings) [][]string {
	sets := [][]string{{"start.elf", "fixup.dat"}, {"start4.elf", "fixup4.dat"}}
	if slices.Contains(c.all("gpu_mem"), "16") {
		sets[0] = append(sets[0], "start_cd.elf", "fixup_cd.dat")
		sets[1] = append(sets[1], "start4cd.elf", "fixup4cd.dat")
	}
	return sets
}

// PiNeeds reports whether a Raspberry Pi does not boot without the file that it has
// asked for.
func (f *Files) PiNeeds(name string) bool {
	clean, ok := tftp.Clean(name)
	if !ok {
		return false
	}
	for _, b := range f.index.Boards {
		if b.Tree == "" {
			continue
		}
		needed := append(f.PiFiles(b.Tree), slices.Concat(piSets(f.piConfig(b.Tree))...)...)
		return slices.Contains(needed, piName(clean))
	}
	return false
}

// piSettings are the lines of a config.txt.
type piSettings []string

// piConfig reads the config.txt of a tree; one that is missing says nothing.
func (f *Files) piConfig(tree string) piSettings {
	c, err := f.plain(tree + "/" + piConfig)
	if err != nil {
		return nil
	}
	defer c.Close()
	text, err := io.ReadAll(io.NewSectionReader(c, 0, min(c.Size(), maxPiConfig)))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// all are the values of a setting, "name=value" or "name value", whatever model they
// are for.
func (c piSettings) all(name string) (values []string) {
	for _, line := range c {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || !strings.ContainsAny(rest[:1], "= ") {
			continue
		}
		if value := strings.TrimSpace(rest[1:]); value != "" {
			values = append(values, value)
		}
	}
	return values
}
