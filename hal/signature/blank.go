package signature

import "encoding/binary"

const (
	// window is how much of either end of a device is looked at for being
	// blank: every signature that is known lies there.
	window = 1 << 20
	chunk  = 64 << 10 // bytes read at a time
	unit   = 512      // the least that is erased at a time
)

// Blank reports whether the first and the last MiB of a device of size bytes
// are empty: zero, or 0xFF as flash memory is after erasing. A device without
// any room is not blank.
func Blank(r Reader, size int64) (bool, error) {
	if size <= 0 {
		return false, nil
	}
	head := min(size, window)
	buf := make([]byte, min(chunk, head))
	if blank, err := blankRange(r, buf, 0, head); !blank || err != nil {
		return false, err
	}
	return blankRange(r, buf, max(head, size-window), size)
}

func blankRange(r Reader, buf []byte, from, to int64) (bool, error) {
	for from < to {
		b := buf[:min(int64(len(buf)), to-from)]
		if err := readFull(r, b, from); err != nil {
			return false, err
		}
		if !Empty(b) {
			return false, nil
		}
		from += int64(len(b))
	}
	return true, nil
}

// Empty reports whether each sector of 512 bytes in b is all zero or all 0xFF.
func Empty(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), unit)
		if !uniform(b[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

func uniform(b []byte) bool {
	fill := b[0]
	if fill != 0 && fill != 0xFF {
		return false
	}
	want := uint64(0)
	if fill == 0xFF {
		want = ^want
	}
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != want {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != fill {
			return false
		}
	}
	return true
}
