package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Host is the real hal.Host; ProcSys is /proc/sys.
type Host struct{ ProcSys string }

// Hostname implements hal.Host.
func (Host) Hostname() (string, error) { return os.Hostname() }

// SetHostname implements hal.Host.
func (Host) SetHostname(name string) error {
	err := unix.Sethostname([]byte(name))
	if errors.Is(err, unix.EINVAL) {
		err = hal.ErrInvalid
	}
	if err != nil {
		return fmt.Errorf("set host name %q: %w", name, err)
	}
	return nil
}

// Sysctl implements hal.Host.
func (h Host) Sysctl(key string) (string, error) {
	path, err := h.sysctlPath(key)
	if err != nil {
		return "", fmt.Errorf("read sysctl %s: %w", key, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read sysctl %s: %w", key, sysctlError(err))
	}
	return strings.TrimRight(string(b), "\n"), nil
}

// SetSysctl implements hal.Host.
func (h Host) SetSysctl(key, value string) error {
	path, err := h.sysctlPath(key)
	if err != nil {
		return fmt.Errorf("set sysctl %s: %w", key, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set sysctl %s to %q: %w", key, value, sysctlError(err))
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		if errors.Is(err, unix.ENOENT) {
			// The key is open: what is not there is the thing that value names,
			// such as a congestion control.
			err = hal.ErrInvalid
		}
		return fmt.Errorf("set sysctl %s to %q: %w", key, value, sysctlError(err))
	}
	return nil
}

// sysctlPath turns net.ipv4.ip_forward, or net/ipv4/conf/eth0.1/forwarding
// (the form that sysctl(8) has for names with dots), into a path below
// ProcSys.
func (h Host) sysctlPath(key string) (string, error) {
	rel := key
	if !strings.Contains(key, "/") {
		rel = strings.ReplaceAll(key, ".", "/")
	}
	if !filepath.IsLocal(rel) {
		return "", hal.ErrNotFound
	}
	return filepath.Join(h.ProcSys, rel), nil
}

func sysctlError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EISDIR): // or only the start of a key
		return hal.ErrNotFound
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		return hal.ErrInvalid
	}
	return err
}

var _ hal.Host = Host{}
