package conformance

import (
	"bytes"
	"testing"

	"machined/hal"
)

// FilesRig is a driver without files.
type FilesRig struct {
	Files hal.Files
	// Public reports whether others than root can read the file.
	Public func(t *testing.T, path string) bool
}

// Files checks a driver.
func Files(t *testing.T, newRig func(t *testing.T) FilesRig) {
	const path = "/system/state/network/lease.json"
	t.Run("absent", func(t *testing.T) {
		r := newRig(t)
		_, err := r.Files.Read(path)
		expect(t, "Read of no file", err, hal.ErrNotFound)
		expect(t, "Remove of no file", r.Files.Remove(path), nil)
		must(t, "Replace", r.Files.Replace("/system/state/file", nil, false))
		_, err = r.Files.Read("/system/state/file/below")
		expect(t, "Read below a file", err, hal.ErrNotFound)
		expect(t, "Remove below a file", r.Files.Remove("/system/state/file/below"), nil)
	})
	t.Run("replace and read", func(t *testing.T) {
		r := newRig(t)
		for _, want := range [][]byte{[]byte("first"), []byte("another, and longer"), {}, []byte("a"), bytes.Repeat([]byte("x"), mib)} {
			given := bytes.Clone(want)
			must(t, "Replace", r.Files.Replace(path, given, false))
			if len(given) > 0 {
				given[0]++ // the caller's again
			}
			got, err := r.Files.Read(path)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("Read = %.20q of %d bytes, %v; want %.20q of %d", got, len(got), err, want, len(want))
			}
			if len(got) > 0 {
				got[0]++
			}
		}
		must(t, "Remove", r.Files.Remove(path))
		_, err := r.Files.Read(path)
		expect(t, "Read after Remove", err, hal.ErrNotFound)
	})
	t.Run("too large", func(t *testing.T) {
		r := newRig(t)
		must(t, "Replace", r.Files.Replace(path, []byte("old"), false))
		expect(t, "Replace with more than 1 MiB", r.Files.Replace(path, make([]byte, mib+1), false), hal.ErrInvalid)
		if got, err := r.Files.Read(path); string(got) != "old" || err != nil {
			t.Errorf("Read after a refused Replace = %.20q, %v; want the old content", got, err)
		}
	})
	t.Run("public", func(t *testing.T) {
		r := newRig(t)
		for _, public := range []bool{true, false, true} {
			must(t, "Replace", r.Files.Replace("/run/machined/resolv.conf", []byte("nameserver 192.0.2.1\n"), public))
			if got := r.Public(t, "/run/machined/resolv.conf"); got != public {
				t.Errorf("after Replace with public=%v others can read the file: %v", public, got)
			}
		}
	})
}
