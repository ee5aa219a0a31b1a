package linux

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
	"machined/tools/testenv"
)

func TestFiles(t *testing.T) {
	conformance.Files(t, func(t *testing.T) conformance.FilesRig {
		defer unix.Umask(unix.Umask(0o077)) // PID 1's is whatever the kernel starts it with
		root := t.TempDir()
		return conformance.FilesRig{Files: &Files{Root: root}, Public: func(t *testing.T, path string) bool {
			info, err := os.Stat(root + path)
			if err != nil {
				t.Fatal(err)
			}
			return info.Mode().Perm() == 0o644
		}}
	})
}

func TestFileModes(t *testing.T) {
	root := t.TempDir()
	f := &Files{Root: root}
	if err := f.Replace("/system/state/pki/key", []byte("secret"), false); err != nil {
		t.Fatal(err)
	}
	if err := f.Replace("/run/machined/resolv.conf", []byte("nameserver 192.0.2.1\n"), true); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		"/system/state/pki": 0o700 | os.ModeDir, "/system/state/pki/key": 0o600, "/run/machined": 0o755 | os.ModeDir, "/run/machined/resolv.conf": 0o644,
	} {
		if info, err := os.Stat(root + path); err != nil || info.Mode() != want {
			t.Errorf("%s has the mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

// TestFileReplacedBesideLinks checks that nothing is written through a link
// that somebody left where the new file is made, or in place of the old one.
func TestFileReplacedBesideLinks(t *testing.T) {
	root := t.TempDir()
	victim := filepath.Join(root, "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"file", ".new.file"} {
		if err := os.Symlink(victim, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&Files{Root: root}).Replace("/file", []byte("new"), false); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "untouched" {
		t.Errorf("the file behind the links holds %q, %v; want it untouched", b, err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 2 {
		t.Errorf("there are %v, %v; want the file and the victim, and nothing left over", entries, err)
	}
}

// TestFileWrittenByMany has writers and readers of one file at once: a reader
// sees one of the contents.
func TestFileWrittenByMany(t *testing.T) {
	f := &Files{Root: t.TempDir()}
	if err := f.Replace("/file", []byte("aaaa"), false); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, content := range []string{"aaaa", "bbbb", "cccc"} {
		all.Go(func() {
			for range 20 {
				if err := f.Replace("/file", []byte(content), false); err != nil {
					t.Errorf("Replace = %v; want success", err)
				}
			}
		})
	}
	for range 200 {
		b, err := f.Read("/file")
		if err != nil || len(b) != 4 || b[0] != b[3] {
			t.Errorf("Read = %q, %v; want one of the contents", b, err)
		}
	}
	all.Wait()
}

// TestFileBesideASlowOne: a write into RAM waited for one to a slow card, and the
// loop with it.
func TestFileBesideASlowOne(t *testing.T) {
	f := &Files{Root: t.TempDir()}
	slow, _ := f.writing.LoadOrStore("/card/a", new(sync.Mutex))
	slow.(*sync.Mutex).Lock() // as a write that hangs does
	done := make(chan error, 1)
	go func() { done <- f.Replace("/ram/b", []byte("b"), true) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a file waits for another")
	}
}

func TestFileTooLarge(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "log"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := (&Files{Root: root}).Read("/log"); !errors.Is(err, hal.ErrInvalid) {
		t.Errorf("Read of 2 MiB = %d bytes, %v; want %v", len(b), err, hal.ErrInvalid)
	}
}

// TestFileOnAFullDisk keeps the old content, and says what is wrong.
func TestFileOnAFullDisk(t *testing.T) {
	testenv.NeedRoot(t)
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(root, 0) })
	f := &Files{Root: root}
	if err := f.Replace("/file", []byte("old"), false); err != nil {
		t.Fatal(err)
	}
	if err := f.Replace("/file", make([]byte, 256<<10), false); !errors.Is(err, hal.ErrNoSpace) {
		t.Errorf("Replace on a full disk = %v; want %v", err, hal.ErrNoSpace)
	}
	if b, err := f.Read("/file"); string(b) != "old" || err != nil {
		t.Errorf("Read = %q, %v; want the old content", b, err)
	}
	if entries, _ := os.ReadDir(root); len(entries) != 1 {
		t.Errorf("%v are left; want the file alone", entries)
	}
}
