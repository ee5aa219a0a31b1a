package linux

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileMapping(t *testing.T) {
	for _, tt := range []struct {
		line       string
		start, end uintptr
		ok         bool
	}{
		{"00400000-00b2c000 r-xp 00000000 00:1f 42    /sbin/machined", 0x400000, 0xb2c000, true},
		{"00400000-00b2c000 r-xp 00000000 00:1f 42    /sbin/machined (deleted)", 0x400000, 0xb2c000, true},
		{"c000000000-c000400000 rw-p 00000000 00:00 0", 0, 0, false},
		{"7ffd1000-7ffd3000 rw-p 00000000 00:00 0     [stack]", 0, 0, false},
		{"400000 r-xp 00000000 00:1f 42 /sbin/machined", 0, 0, false},
		{"", 0, 0, false},
	} {
		start, end, ok := fileMapping(tt.line)
		if ok != tt.ok || ok && (start != tt.start || end != tt.end) {
			t.Errorf("fileMapping(%q) = %#x, %#x, %v; want %#x, %#x, %v", tt.line, start, end, ok, tt.start, tt.end, tt.ok)
		}
	}
}

// TestLockProgram asks the kernel what is locked.
func TestLockProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may lock so much memory")
	}
	lockedKB := func() int {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`VmLck:\s+(\d+) kB`).FindSubmatch(status)
		kb, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return kb
	}
	bytes, err := (&Processes{}).LockProgram()
	t.Cleanup(func() { unix.Munlockall() })
	if got := lockedKB(); err != nil || bytes < 1<<20 || int64(got) < bytes>>10 {
		t.Errorf("LockProgram() = %d, %v, and the kernel has %d kB locked; want all of the program", bytes, err, got)
	}
}
