package fat

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"machined/hal"
)

// RepairDevice repairs the FAT32 volume on a block device or in a file, and
// reports whether it was dirty. A clean one is left as it is. The device must
// not be mounted (EBUSY). hal.ErrNoDevice, ErrNotFAT32, ErrDamaged, ErrTooLarge;
// after the last three the volume is as it was and can be mounted read-only.
func RepairDevice(path string) (Report, bool, error) {
	f, err := openVolume(path)
	if err != nil {
		return Report{}, false, fmt.Errorf("open %s to repair it: %w", path, err)
	}
	report, dirty, err := repairFile(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return report, dirty, fmt.Errorf("%s: %w", path, err)
	}
	return report, dirty, nil
}

func openVolume(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (%w)", hal.ErrNoDevice, err)
	}
	if err != nil {
		return nil, err
	}
	flags := os.O_RDWR
	switch mode := info.Mode(); {
	case mode.Type() == fs.ModeDevice:
		// Without O_CREATE it is not for new files: it claims a block device, as
		// a mount does.
		flags |= os.O_EXCL
	case !mode.IsRegular():
		return nil, fmt.Errorf("it is neither a block device nor a file: %w", hal.ErrInvalid)
	}
	return os.OpenFile(path, flags, 0)
}

func repairFile(f *os.File) (Report, bool, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return Report{}, false, fmt.Errorf("find its size: %w", err)
	}
	dirty, err := Dirty(f, size)
	if err != nil || !dirty {
		return Report{}, false, err
	}
	report, err := Repair(f, size)
	return report, true, err
}
