package kmod

import (
	"errors"
	"io/fs"
	"strings"
)

// LoadNamed loads modules by the kernel's names for them, for a kernel that
// would have asked modprobe(8) only when they are used. Those that are built
// in are passed over; those that the kernel lacks are returned. One that fails
// is reported, and the rest goes on.
func (l *Loader) LoadNamed(names []string) (missing []string, err error) {
	if err := l.readIndexes(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // no modules: whatever there is, is built in
		}
		return nil, err
	}
	builtin := make(map[string]bool)
	err = l.eachLine("modules.builtin", func(line string) { builtin[moduleName(strings.TrimSpace(line))] = true })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l.tried = make(map[string]error)
	for _, name := range names {
		name = underscores(name)
		_, known := l.modules[name]
		switch {
		case builtin[name]:
		case !known:
			missing = append(missing, name)
		default:
			if err := l.load(name); err != nil {
				l.Report("%v.", err)
			}
		}
	}
	l.summarize()
	return missing, nil
}
