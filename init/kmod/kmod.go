// Package kmod loads the kernel modules that match the devices present, as
// udev and modprobe do elsewhere. It reads the text indexes that depmod(8)
// leaves beside the modules.
package kmod

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxPasses bounds the looks for devices: a module that was loaded, such as
	// a bus's, brings devices of its own.
	maxPasses = 5
	// maxDevices bounds one look, in directories and files of sysfs.
	maxDevices = 500_000
	// maxAlias is the most that is read of one device's alias, in bytes; the
	// kernel writes at most a page.
	maxAlias = 4096
)

// Loader loads modules. Its methods belong to one goroutine.
type Loader struct {
	// Modules is /lib/modules/RELEASE and Devices /sys/devices.
	Modules, Devices fs.FS
	// Insert loads the module in a file, named as in Modules; one that is
	// loaded already is no error.
	Insert func(file string) error
	// Report says what was loaded, and what could not be.
	Report func(format string, args ...any)

	aliases []alias
	modules map[string]module
	tried   map[string]error // by module; nil: loaded
}

// alias says which module drives the devices that match pattern.
type alias struct{ pattern, module string }

// module is a line of modules.dep: a file, and the files that it needs.
type module struct {
	file  string
	needs []string
}

// Run loads what the devices ask for. A kernel without modules is no error,
// and neither is a module that fails: it is reported, and the rest goes on.
func (l *Loader) Run() error {
	if err := l.readIndexes(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	l.tried = make(map[string]error)
	seen := make(map[string]bool)
	for range maxPasses {
		before := len(l.tried)
		devices, err := l.devices()
		if err != nil {
			return err
		}
		for _, d := range devices {
			if !seen[d] {
				seen[d] = true
				l.loadFor(d)
			}
		}
		if len(l.tried) == before {
			break
		}
	}
	l.summarize()
	return nil
}

func (l *Loader) summarize() {
	maps.DeleteFunc(l.tried, func(_ string, err error) bool { return err != nil })
	if loaded := slices.Sorted(maps.Keys(l.tried)); len(loaded) > 0 {
		l.Report("Loaded %s.", strings.Join(loaded, ", "))
	}
}

// loadFor loads every module that claims the device: which of them drives it
// is for the kernel to find out.
func (l *Loader) loadFor(device string) {
	for _, a := range l.aliases {
		if _, tried := l.tried[a.module]; tried || !matches(a.pattern, device) {
			continue
		}
		if err := l.load(a.module); err != nil {
			l.Report("%v.", err)
		}
	}
}

// load loads a module after those that it needs, which modules.dep lists in
// the order from it to the last of them.
func (l *Loader) load(name string) error {
	m, known := l.modules[name]
	if !known {
		l.tried[name] = fs.ErrNotExist
		return fmt.Errorf("load module %s: modules.dep does not list it", name)
	}
	for _, need := range slices.Backward(m.needs) {
		if err := l.insert(moduleName(need), need); err != nil {
			l.tried[name] = err
			return fmt.Errorf("load module %s, which %s needs: %w", moduleName(need), name, err)
		}
	}
	if err := l.insert(name, m.file); err != nil {
		return fmt.Errorf("load module %s: %w", name, err)
	}
	return nil
}

func (l *Loader) insert(name, file string) error {
	err, tried := l.tried[name]
	if !tried {
		err = l.Insert(file)
		l.tried[name] = err
	}
	return err
}

// devices returns the aliases of the devices. What disappears meanwhile is
// passed over.
func (l *Loader) devices() ([]string, error) {
	var found []string
	visited := 0
	err := fs.WalkDir(l.Devices, ".", func(p string, d fs.DirEntry, err error) error {
		visited++
		switch {
		case visited > maxDevices:
			return fmt.Errorf("look for devices: there are more than %d files", maxDevices)
		case err != nil && p == ".":
			return err
		case err != nil || d.IsDir() || path.Base(p) != "modalias":
			return nil
		}
		if text := l.readAlias(p); text != "" {
			found = append(found, text)
		}
		return nil
	})
	return found, err
}

func (l *Loader) readAlias(p string) string {
	f, err := l.Devices.Open(p)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxAlias))
	return strings.TrimRight(string(text), "\n")
}

// readIndexes reads modules.dep and modules.alias.
func (l *Loader) readIndexes() error {
	l.modules, l.aliases = make(map[string]module), nil
	err := l.eachLine("modules.dep", func(line string) {
		file, needs, ok := strings.Cut(line, ":")
		if ok {
			l.modules[moduleName(file)] = module{file: file, needs: strings.Fields(needs)}
		}
	})
	if err != nil {
		return err
	}
	return l.eachLine("modules.alias", func(line string) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "alias" {
			l.aliases = append(l.aliases, alias{pattern: f[1], module: underscores(f[2])})
		}
	})
}

func (l *Loader) eachLine(name string, use func(line string)) error {
	f, err := l.Modules.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // some modules need a hundred others
	for lines.Scan() {
		use(lines.Text())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// moduleName is the kernel's name of the module in a file: to the kernel, "-"
// and "_" are one.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return underscores(name)
}

func underscores(s string) string { return strings.ReplaceAll(s, "-", "_") }

// compressedFile is MODULE_INIT_COMPRESSED_FILE of the kernel's
// include/uapi/linux/module.h: the kernel decompresses by itself.
const compressedFile = 4

// Insert loads the module in the file with finit_module(2).
func Insert(file string) error {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	defer unix.Close(fd)
	flags := 0
	if path.Ext(file) != ".ko" {
		flags = compressedFile
	}
	if err := unix.FinitModule(fd, "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}
