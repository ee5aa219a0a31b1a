// Package provision makes what a netbooted node is given: its machine config, from
// a directory of YAML files that are templates, and its identity, which stays the
// same over its boots.
package provision

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"machined/init/config"
	"machined/tools/netboot/registry"
)

const (
	// configsDir is the directory of configs in the netboot directory: MAC.yaml,
	// SERIAL.yaml, UUID.yaml, default.yaml.
	configsDir = "configs"
	suffix     = ".yaml"
	fallback   = "default"
	// maxConfig bounds a config before and after its template, in bytes.
	maxConfig = 1 << 20
)

// Facts are what a template can use, such as {{.Serial}}. They are empty while not
// known; none has a character that means something in YAML, but the colons of a
// MAC.
type Facts struct {
	ID      string // of the board: its MAC with dashes
	MAC     string // with colons, lower case
	Serial  string
	UUID    string
	Board   string // of the table of boards
	Address string // that it had from DHCP
}

func factsOf(b registry.Board) Facts {
	f := Facts{
		ID: registry.Name(b.ID), Serial: registry.Name(b.Serial), UUID: registry.Name(b.UUID),
		Board: registry.Name(b.Name), Address: registry.Name(b.Address),
	}
	if mac, err := net.ParseMAC(b.MAC); err == nil {
		f.MAC = mac.String()
	}
	return f
}

// Configs are the machine configs of a netboot directory.
type Configs struct{ Dir string }

func (c Configs) dir() string { return filepath.Join(c.Dir, configsDir) }

// names are the files by what they are for.
type names struct {
	exact map[string]string
	// short are those that are named after a serial number of 16 digits, by its last
	// eight, which are all that a Raspberry Pi's firmware tells.
	short map[string]string
}

// of returns the file for a serial number.
func (n names) of(serial string) string {
	for _, name := range []string{n.exact[serial], n.exact[registry.ShortSerial(serial)], n.short[serial]} {
		if name != "" {
			return name
		}
	}
	return ""
}

func (c Configs) names() (names, error) {
	list, err := os.ReadDir(c.dir())
	if err != nil {
		return names{}, fmt.Errorf("list the configs of the boards: %w", err)
	}
	n := names{exact: make(map[string]string), short: make(map[string]string)}
	for _, e := range list {
		base, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || e.IsDir() {
			continue
		}
		key := registry.Name(base)
		if other, twice := n.exact[key]; twice {
			return names{}, fmt.Errorf("%s and %s in %s are for the same board; remove one", other, e.Name(), c.dir())
		}
		n.exact[key] = e.Name()
		short := registry.ShortSerial(key)
		if other, twice := n.short[short]; twice && short != "" {
			return names{}, fmt.Errorf("%s and %s in %s have serial numbers that end alike, and DHCP tells the end alone; name one after its MAC", other, e.Name(), c.dir())
		}
		n.short[short] = e.Name()
	}
	delete(n.short, "")
	for short, name := range n.short {
		if other, twice := n.exact[short]; twice {
			return names{}, fmt.Errorf("%s and %s in %s are two forms of one serial number; remove one", other, name, c.dir())
		}
	}
	return n, nil
}

// file returns the file of a board, and whether it is one of its own.
func (c Configs) file(b registry.Board) (name string, own bool, err error) {
	n, err := c.names()
	if err != nil {
		return "", false, err
	}
	delete(n.exact, "") // of a board that tells nothing
	standard := n.exact[fallback]
	delete(n.exact, fallback) // a board cannot ask for it by name
	uuid := registry.Name(b.UUID)
	for _, name := range []string{n.exact[registry.Name(b.MAC)], n.of(registry.Name(b.Serial)), n.exact[uuid], n.exact[swapped(uuid)]} {
		if name != "" {
			return name, true, nil
		}
	}
	return standard, false, nil
}

// swapped is a UUID with the bytes of its first three groups the other way round,
// "" for what is none: firmware is at odds over their order in option 97 of DHCP
// (SMBIOS 3.6, 7.2.1; RFC 4578, 2.3).
func swapped(uuid string) string {
	groups := strings.Split(uuid, "-")
	if len(groups) != 5 {
		return ""
	}
	for i, group := range groups[:3] {
		b, err := hex.DecodeString(group)
		if err != nil {
			return ""
		}
		slices.Reverse(b)
		groups[i] = hex.EncodeToString(b)
	}
	return strings.Join(groups, "-")
}

// Known reports whether a board has a config of its own.
func (c Configs) Known(b registry.Board) bool {
	_, own, err := c.file(b)
	return err == nil && own
}

// Config returns the machine config of a board and its file's name. Both are empty
// if it has none. A config that is not valid is an error, with all that is wrong.
func (c Configs) Config(b registry.Board) (name string, text []byte, err error) {
	name, _, err = c.file(b)
	if err != nil || name == "" {
		return "", nil, err
	}
	text, err = c.render(name, factsOf(b))
	return name, text, err
}

func (c Configs) render(name string, f Facts) ([]byte, error) {
	path := filepath.Join(c.dir(), name)
	source, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	return render(path, source, f)
}

// render fills in the template that was read from a path, and checks the config
// that this makes.
func render(path string, source []byte, f Facts) ([]byte, error) {
	t, err := template.New(filepath.Base(path)).Option("missingkey=error").Parse(string(source))
	if err != nil {
		return nil, fmt.Errorf("read the template of a config in %s: %w", path, err)
	}
	out := &bounded{left: maxConfig}
	if err := t.Execute(out, f); err != nil {
		return nil, fmt.Errorf("fill in the config %s: %w", path, err)
	}
	if _, _, err := config.Parse(path, out.Bytes()); err != nil {
		return nil, fmt.Errorf("check the config %s with the facts of a board: %w", path, err)
	}
	return out.Bytes(), nil
}

// example has the facts of a board that is not there.
func example() Facts {
	return Facts{
		ID: "02-00-00-00-00-01", MAC: "02:00:00:00:00:01", Serial: "10000000abcdef01",
		UUID: "00000000-0000-4000-8000-000000000001", Board: "x86_64-uefi", Address: "192.0.2.1",
	}
}

// Example returns the machine config that a template, which was read from a path,
// makes for a board that is not there. A template that makes none is an error.
func Example(path string, source []byte) ([]byte, error) { return render(path, source, example()) }

// Check returns an error that has each config which no board could be given.
func (c Configs) Check() error {
	n, err := c.names()
	if err != nil {
		return err
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Values(n.exact)) {
		if _, err := c.render(name, example()); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(text) > maxConfig {
		err = fmt.Errorf("%s has more than %d bytes", path, maxConfig)
	}
	return text, err
}

// bounded is a buffer that a template cannot fill without end.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, fmt.Errorf("it grows beyond %d bytes", maxConfig)
	}
	return b.Buffer.Write(p)
}
