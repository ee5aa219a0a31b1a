package piboot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

const (
	// lineLimit is the length of a line, in bytes, beyond which the firmware
	// ignores the rest. In older firmware it was 78.
	lineLimit = 98
	// nameLimit is the length of a file name in initramfs and include.
	nameLimit = 64
	// includeDepth and includeCount bound files that include each other: the
	// depth alone would allow one that includes itself twice.
	includeDepth = 8
	includeCount = 64
	// warningLimit keeps a damaged file from giving a warning for every line.
	warningLimit = 50
	// configLimit bounds a config file, in bytes. Real ones have a few KiB.
	configLimit = 1 << 20
)

// Directive is one dtparam or dtoverlay line.
type Directive struct {
	Key   string // "dtparam" or "dtoverlay"
	Value string
}

// Settings is what a config.txt says to one board.
type Settings struct {
	// Values holds the last value of every key, known to this package or not.
	Values map[string]string
	// Initramfs is the argument of initramfs, or of ramfsfile: names,
	// separated by commas.
	Initramfs string
	// DeviceTree has the dtparam and dtoverlay lines in order: a dtparam after
	// a dtoverlay belongs to that overlay.
	DeviceTree []Directive
	// Warnings is about lines that are likely not meant so.
	Warnings []string
}

// Bool gives a setting that is a number, as true for anything but 0.
func (s Settings) Bool(key string, unset bool) bool {
	n, ok := s.Int(key)
	if !ok {
		return unset
	}
	return n != 0
}

// Int gives a setting that is a number. ok says that it is there and is one.
func (s Settings) Int(key string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s.Values[key], 0, 64)
	return n, err == nil
}

// Conditions is what a config file depends on besides its text.
type Conditions struct {
	Board   Board
	Tryboot bool
	// Files is where include looks. With nil, as for bootcode.bin, include
	// lines are passed over.
	Files fs.FS
}

// ParseConfig reads a config.txt as the firmware would under the conditions c.
// Lines that make no sense are passed over; an error means that r could not be
// read, is larger than 1 MiB, or has an include that leaves Files.
func ParseConfig(r io.Reader, c Conditions) (Settings, error) {
	p := parser{
		Settings: Settings{Values: map[string]string{}},
		files:    c.Files,
		filters:  filters{board: c.Board, tryboot: c.Tryboot, passes: map[string]bool{}},
	}
	if err := p.parse(r, 0); err != nil {
		return Settings{}, err
	}
	return p.Settings, nil
}

type parser struct {
	Settings
	filters  filters
	files    fs.FS
	included int
}

func (p *parser) warn(format string, args ...any) {
	warning := fmt.Sprintf(format, args...)
	if len(p.Warnings) < warningLimit && !slices.Contains(p.Warnings, warning) {
		p.Warnings = append(p.Warnings, warning)
	}
}

func (p *parser) parse(r io.Reader, depth int) error {
	data, err := io.ReadAll(io.LimitReader(r, configLimit+1))
	if err != nil {
		return fmt.Errorf("piboot: reading the config file: %w", err)
	}
	if len(data) > configLimit {
		return fmt.Errorf("piboot: the config file has more than %d bytes; that cannot be meant", configLimit)
	}
	for number := 1; len(data) > 0; number++ {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		line = bytes.TrimRight(line, "\r")
		if len(line) > lineLimit {
			// Some firmware has taken the rest for a line of its own
			// (raspberrypi/firmware 1669), so even a comment is worth a word.
			p.warn("line %d has %d characters, the firmware reads %d: %.20q...", number, len(line), lineLimit, line)
			line = line[:lineLimit]
		}
		if err := p.line(strings.TrimSpace(string(line)), depth); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) line(line string, depth int) error {
	switch {
	case line == "" || line[0] == '#':
		return nil
	case line[0] == '[':
		if name, _, ok := strings.Cut(line[1:], "]"); ok {
			if warning := p.filters.apply(name); warning != "" {
				p.warn("%s", warning)
			}
			return nil
		}
		p.warn("%.20q has no closing bracket and is ignored", line)
		return nil
	case !p.filters.active():
		return nil
	}
	words := strings.Fields(line)
	switch words[0] {
	case "initramfs":
		p.initramfs(words[1:])
		return nil
	case "include":
		return p.include(words[1:], depth)
	}
	key, value, ok := strings.Cut(line, "=")
	if !ok {
		p.warn("%.20q is no property=value and is ignored", line)
		return nil
	}
	if strings.ContainsAny(key, " \t") {
		p.warn("the key %.20q has a space, which the firmware does not remove", key)
	}
	p.set(key, value)
	return nil
}

func (p *parser) set(key, value string) {
	switch key {
	case "dtparam", "dtoverlay":
		p.DeviceTree = append(p.DeviceTree, Directive{key, value})
	case "device_tree_overlay": // the old name
		p.DeviceTree = append(p.DeviceTree, Directive{"dtoverlay", value})
	case "ramfsfile":
		p.Initramfs = value
	}
	p.Values[key] = value
}

// initramfs takes the line that has no equals sign: names and an address.
func (p *parser) initramfs(words []string) {
	if len(words) == 0 {
		p.warn("initramfs names no file and is ignored")
		return
	}
	if strings.HasPrefix(words[0], "=") {
		p.warn("initramfs takes no equals sign; the line is ignored")
		return
	}
	p.Initramfs = words[0]
	if len(p.Initramfs) > nameLimit {
		p.warn("the initramfs names have %d characters, the firmware reads %d", len(p.Initramfs), nameLimit)
		p.Initramfs = p.Initramfs[:nameLimit]
	}
	if len(words) < 2 {
		p.warn("initramfs %s has no address; add followkernel", p.Initramfs)
	}
}

func (p *parser) include(words []string, depth int) error {
	if p.files == nil {
		return nil
	}
	if len(words) == 0 || len(words[0]) > nameLimit {
		p.warn("include needs one name of at most %d characters; the line is ignored", nameLimit)
		return nil
	}
	if p.included++; depth >= includeDepth || p.included > includeCount {
		p.warn("include %s is ignored: more than %d files deep, or more than %d in all", words[0], includeDepth, includeCount)
		return nil
	}
	name, err := confine("", words[0])
	if err != nil {
		return err
	}
	info, err := fs.Stat(p.files, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || err == nil && !info.Mode().IsRegular() {
		p.warn("the included file %s is missing; the firmware goes on without it", name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("piboot: looking for the included file %s: %w", name, err)
	}
	f, err := p.files.Open(name)
	if err != nil {
		return fmt.Errorf("piboot: opening the included file %s: %w", name, err)
	}
	defer f.Close()
	return p.parse(f, depth+1)
}
