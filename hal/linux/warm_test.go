package linux

import (
	"debug/elf"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestInterpreter finds what programs are executed by.
func TestInterpreter(t *testing.T) {
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	linker := ""
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text := make([]byte, p.Filesz-1)
			if _, err := p.ReadAt(text, 0); err != nil {
				t.Fatal(err)
			}
			linker = string(text)
		}
	}
	for _, c := range []struct{ head, want string }{
		{string(sleep), linker},
		{string(sleep[:headSize/4]), linker},
		{string(sleep[:63]), ""},
		{"#!/bin/sh\nexit\n", "/bin/sh"},
		{"#! \t/usr/bin/env python\n", "/usr/bin/env"},
		{"#!", ""},
		{"exit\n", ""},
		{"", ""},
	} {
		if got := interpreter([]byte(c.head)); got != c.want {
			t.Errorf("the interpreter of %.20q is %q; want %q", c.head, got, c.want)
		}
	}
}

// TestWarm: all that execve reads is in the page cache, of a script's program, too.
func TestWarm(t *testing.T) {
	dir := t.TempDir()
	script, program := filepath.Join(dir, "script"), filepath.Join(dir, "program")
	text, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{script: []byte("#!" + program + "\n"), program: text} {
		if err := os.WriteFile(path, content, 0o700); err != nil {
			t.Fatal(err)
		}
		forget(t, path)
	}
	if cached(t, program) {
		t.Skip("this file system keeps what it is told to forget")
	}
	warm(script, dir)
	for _, path := range []string{script, program} {
		if !cached(t, path) {
			t.Errorf("%s is still to be read from the disk", filepath.Base(path))
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	warm(pipe, "/nothing") // and comes back
}

// forget has the kernel drop a file from the page cache.
func forget(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// cached reports whether the first page of a file is in memory (mincore(2)).
func cached(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	in := []byte{0}
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&page[0])), 1, uintptr(unsafe.Pointer(&in[0]))); errno != 0 {
		t.Fatal(errno)
	}
	return in[0]&1 == 1
}

// FuzzInterpreter reads the heads of programs that anybody may have put on a disk.
func FuzzInterpreter(f *testing.F) {
	if text, err := os.ReadFile("/bin/sleep"); err == nil {
		f.Add(text[:1024])
	}
	f.Add([]byte("#!/bin/sh\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		if got := interpreter(head); len(got) > len(head) {
			t.Errorf("the interpreter has %d bytes, and the head %d", len(got), len(head))
		}
	})
}
