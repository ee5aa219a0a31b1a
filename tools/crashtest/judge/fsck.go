package judge

import (
	"errors"
	"fmt"
	"os/exec"

	"machined/hal/linux/fat"
)

// Fsck is the file system checker of dosfstools.
type Fsck struct{ path string }

// ErrNoFsck says that fsck.fat is not installed.
var ErrNoFsck = errors.New("fsck.fat is not there; `make setup` installs it")

// FindFsck looks for fsck.fat.
func FindFsck() (Fsck, error) {
	for _, name := range []string{"fsck.fat", "/usr/sbin/fsck.fat", "/sbin/fsck.fat"} {
		if path, err := exec.LookPath(name); err == nil {
			return Fsck{path}, nil
		}
	}
	return Fsck{}, ErrNoFsck
}

// errRepaired says that fsck.fat has found something and repaired it.
var errRepaired = errors.New("fsck.fat has repaired it")

// Clean returns nil for a volume with which nothing is wrong.
func (f Fsck) Clean(v *Volume) error { return f.run("-n", v) }

// run returns nil for a clean volume.
func (f Fsck) run(option string, v *Volume) error {
	out, err := exec.Command(f.path, option, v.file.Name()).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == 1 && option == "-a":
		return errRepaired
	}
	return fmt.Errorf("fsck.fat %s: %w\n%s", option, err, out)
}

// passes is how often fsck.fat may have to run: it finds some things only when
// it has repaired others.
const passes = 6

// repaired has fsck.fat repair a copy of the volume, which is clean then. It
// reports whether there was something to repair.
func (f Fsck) repaired(scratch, v *Volume) (dirty bool, err error) {
	scratch.Copy(v)
	for range passes {
		err := f.run("-a", scratch)
		if !errors.Is(err, errRepaired) {
			return dirty, err
		}
		dirty = true
	}
	return true, fmt.Errorf("it is not clean after fsck.fat -a has run %d times", passes)
}

// mended repairs a copy of the volume as a node does.
func mended(scratch, v *Volume) error {
	scratch.Copy(v)
	_, err := fat.Repair(scratch, int64(len(scratch.data)))
	return err
}
