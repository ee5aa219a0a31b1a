package conformance

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"machined/hal"
)

// BootFilesRig is a driver on an empty, locked boot partition.
type BootFilesRig struct {
	Files hal.BootFiles
	// Writable reports whether the partition is mounted so.
	Writable func() bool
}

// BootFiles checks a driver.
func BootFiles(t *testing.T, newRig func(t *testing.T) BootFilesRig) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, r BootFilesRig)
	}{
		{"lock", bootLock}, {"absent", bootAbsent}, {"paths", bootPaths}, {"create, read, list", bootCreate},
		{"room", bootRoom}, {"overwrite", bootOverwrite}, {"rename", bootRename}, {"replace", bootReplace}, {"remove", bootRemove},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newRig(t)) })
	}
}

// unlocked makes the partition writable for the rest of the test.
func unlocked(t *testing.T, r BootFilesRig) hal.BootFiles {
	t.Helper()
	must(t, "Unlock", r.Files.Unlock())
	t.Cleanup(func() {
		must(t, "Lock", r.Files.Lock())
		if r.Writable() {
			t.Errorf("after Lock the partition is writable")
		}
	})
	return r.Files
}

func write(t *testing.T, f hal.BootFiles, path, text string) {
	t.Helper()
	w, err := f.Create(path, int64(len(text)))
	must(t, "Create of "+path, err)
	// In two writes: a writer goes on where it was.
	for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
		n, err := w.Write([]byte(part))
		must(t, "Write", err)
		if n != len(part) {
			t.Errorf("Write = %d; want %d", n, len(part))
		}
	}
	must(t, "Close", w.Close())
}

func wantFile(t *testing.T, f hal.BootFiles, path, want string) {
	t.Helper()
	got, err := f.Read(path)
	if err != nil || string(got) != want {
		t.Errorf("Read of %s = %.40q, %v; want %.40q", path, got, err, want)
	}
	sum, err := f.Hash(path)
	if err != nil || sum != sha256.Sum256([]byte(want)) {
		t.Errorf("Hash of %s = %x, %v; want %x", path, sum, err, sha256.Sum256([]byte(want)))
	}
}

func bootLock(t *testing.T, r BootFilesRig) {
	if r.Writable() {
		t.Fatal("the partition is writable from the start")
	}
	_, err := r.Files.Create("file", 1)
	expect(t, "Create while locked", err, hal.ErrLocked)
	expect(t, "Replace while locked", r.Files.Replace("file", nil), hal.ErrLocked)
	expect(t, "Overwrite while locked", r.Files.Overwrite("file", 0, nil), hal.ErrLocked)
	expect(t, "Rename while locked", r.Files.Rename("file", "other"), hal.ErrLocked)
	expect(t, "Remove while locked", r.Files.Remove("file"), hal.ErrLocked)
	for range 2 {
		must(t, "Unlock", r.Files.Unlock())
		if !r.Writable() {
			t.Error("after Unlock the partition is read-only")
		}
	}
	write(t, r.Files, "file", "text")
	for range 2 {
		must(t, "Lock", r.Files.Lock())
	}
	wantFile(t, r.Files, "file", "text")
	_, err = r.Files.Create("file", 1)
	expect(t, "Create after Lock", err, hal.ErrLocked)
}

func bootAbsent(t *testing.T, r BootFilesRig) {
	f := unlocked(t, r)
	write(t, f, "file", "")
	for _, path := range []string{"none", "none/none", "file/none"} {
		_, err := f.Read(path)
		expect(t, "Read of "+path, err, hal.ErrNotFound)
		_, err = f.Hash(path)
		expect(t, "Hash of "+path, err, hal.ErrNotFound)
		_, err = f.List(path)
		expect(t, "List of "+path, err, hal.ErrNotFound)
		expect(t, "Overwrite of "+path, f.Overwrite(path, 0, nil), hal.ErrNotFound)
		expect(t, "Rename of "+path, f.Rename(path, "other"), hal.ErrNotFound)
		expect(t, "Remove of "+path, f.Remove(path), nil)
	}
	wantFile(t, f, "file", "")
}

func bootPaths(t *testing.T, r BootFilesRig) {
	f := unlocked(t, r)
	for _, path := range []string{"/etc/passwd", "../file", "a/../../file", "a//b", "a/.", "a/", `a\b`, "", "a\x00b"} {
		_, err := f.Read(path)
		expect(t, "Read of "+path, err, hal.ErrInvalid)
		_, err = f.Create(path, 0)
		expect(t, "Create of "+path, err, hal.ErrInvalid)
		expect(t, "Remove of "+path, f.Remove(path), hal.ErrInvalid)
		expect(t, "Overwrite of "+path, f.Overwrite(path, 0, nil), hal.ErrInvalid)
		write(t, f, "file", "text")
		expect(t, "Rename to "+path, f.Rename("file", path), hal.ErrInvalid)
	}
	expect(t, "Remove of everything", f.Remove("."), hal.ErrInvalid)
	wantFile(t, f, "file", "text")
}

func bootCreate(t *testing.T, r BootFilesRig) {
	f := unlocked(t, r)
	large := string(bytes.Repeat([]byte("0123456789abcdef"), mib/16))
	write(t, f, "B/overlays/README", "first, and longer")
	write(t, f, "B/overlays/README", "second")
	write(t, f, "B/linux.efi", large)
	wantFile(t, f, "B/overlays/README", "second")
	wantFile(t, f, "B/linux.efi", large)
	write(t, f, "B/larger", large+"x")
	_, err := f.Read("B/larger")
	expect(t, "Read of more than 1 MiB", err, hal.ErrInvalid)
	_, err = f.Read("B/overlays")
	expect(t, "Read of a directory", err, hal.ErrInvalid)
	_, err = f.Create("B/overlays", 0)
	expect(t, "Create in place of a directory", err, hal.ErrInvalid)
	must(t, "Flush", f.Flush())
	wantList(t, f, "B", hal.BootFile{Name: "larger", Size: mib + 1}, hal.BootFile{Name: "linux.efi", Size: mib}, hal.BootFile{Name: "overlays", Dir: true})
	wantList(t, f, "", hal.BootFile{Name: "B", Dir: true})
}

func wantList(t *testing.T, f hal.BootFiles, dir string, want ...hal.BootFile) {
	t.Helper()
	got, err := f.List(dir)
	same := err == nil && len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i] == want[i]
	}
	if !same {
		t.Errorf("List of %q = %+v, %v; want %+v", dir, got, err, want)
	}
}

func bootRoom(t *testing.T, r BootFilesRig) {
	f := unlocked(t, r)
	free, err := f.Free()
	if err != nil || free <= 0 {
		t.Fatalf("Free = %d, %v; want some", free, err)
	}
	write(t, f, "file", "text")
	for _, path := range []string{"file", "other"} {
		_, err = f.Create(path, free+1<<40)
		expect(t, "Create of more than is free", err, hal.ErrNoSpace)
	}
	wantFile(t, f, "file", "text")
	_, err = f.Create("file", -1)
	expect(t, "Create of less than nothing", err, hal.ErrInvalid)
}

func bootOverwrite(t *testing.T, r BootFilesRig) {
	f := unlocked(t, r)
	write(t, f, "config.txt", "os_prefix=A/\nrest\n")
	must(t, "Overwrite", f.Overwrite("config.txt", 10, []byte("B")))
	wantFile(t, f, "config.txt", "os_prefix=B/\nrest\n")
	must(t, "Overwrite of the end", f.Overwrite("config.txt", 17, []byte(".")))
	const want = "os_prefix=B/\nrest."
	for _, offset := range []int64{-1, 18, 1 << 40} {
		expect(t, "Overwrite outside of the file", f.Overwrite("config.txt", offset, []byte("x")), hal.ErrInvalid)
	}
	expect(t, "Overwrite beyond the end", f.Overwrite("config.txt", 17, []byte("xx")), hal.ErrInvalid)
	wantFile(t, f, "config.txt", want)
	large := bytes.Repeat([]byte("a"), 2000)
	write(t, f, "large", string(large))
	must(t, "Overwrite of several sectors", f.Overwrite("large", 500, bytes.Repeat([]byte("b"), 1000)))
	copy(large[500:], bytes.Repeat([]byte("b"), 1000))
	wantFile(t, f, "large", string(large))
}

func bootRename(t *testing.T, r BootFilesRig) {
	f := unlocked(t, r)
	write(t, f, "loader/entries/b+3.conf", "b")
	must(t, "Rename", f.Rename("loader/entries/b+3.conf", "loader/entries/b+2-1.conf"))
	wantList(t, f, "loader/entries", hal.BootFile{Name: "b+2-1.conf", Size: 1})
	write(t, f, "other", "other")
	must(t, "Rename over a file", f.Rename("other", "loader/entries/b+2-1.conf"))
	wantFile(t, f, "loader/entries/b+2-1.conf", "other")
	must(t, "Rename to a new directory", f.Rename("loader/entries/b+2-1.conf", "a/b/c"))
	wantFile(t, f, "a/b/c", "other")
	wantList(t, f, "loader/entries")
	must(t, "Rename to itself", f.Rename("a/b/c", "a/b/c"))
	wantFile(t, f, "a/b/c", "other")
}

func bootReplace(t *testing.T, r BootFilesRig) {
	f := unlocked(t, r)
	for _, text := range []string{"first, and longer", "second", ""} {
		must(t, "Replace", f.Replace("dir/file", []byte(text)))
		wantFile(t, f, "dir/file", text)
		wantList(t, f, "dir", hal.BootFile{Name: "file", Size: int64(len(text))})
	}
}

func bootRemove(t *testing.T, r BootFilesRig) {
	f := unlocked(t, r)
	for _, path := range []string{"B/a", "B/c/d/e", "B/c/f", "Bee"} {
		write(t, f, path, path)
	}
	must(t, "Remove of a file", f.Remove("B/c/f"))
	wantList(t, f, "B/c", hal.BootFile{Name: "d", Dir: true})
	must(t, "Remove of a directory", f.Remove("B"))
	wantList(t, f, "", hal.BootFile{Name: "Bee", Size: 3})
}
