package images_test

import (
	"os"
	"syscall"
	"testing"
)

// smallDisk mounts a file system that is too small for an image.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("mounting a small file system is refused: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}
