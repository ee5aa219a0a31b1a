// Command guest is the init of the machine that TestKernelInGuest starts. It
// mounts every virtio disk as vfat and prints what the kernel sees there.
package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("GUEST failed:", err)
	}
	syscall.Sync()
	// PID 1 must not return: the kernel would panic over it.
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
}

func run() error {
	for _, dir := range []string{"/dev", "/mnt"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := syscall.Mount("dev", "/dev", "devtmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounting /dev: %w", err)
	}
	disks, err := filepath.Glob("/dev/vd?")
	if err != nil {
		return err
	}
	for _, disk := range disks {
		if err := list(disk); err != nil {
			return err
		}
	}
	fmt.Println("GUEST done")
	return nil
}

// list prints one line a file, "GUEST disk sha256 path".
func list(disk string) error {
	if err := syscall.Mount(disk, "/mnt", "vfat", syscall.MS_RDONLY, "utf8,iocharset=ascii"); err != nil {
		return fmt.Errorf("mounting %s: %w", disk, err)
	}
	defer syscall.Unmount("/mnt", 0)
	return filepath.WalkDir("/mnt", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel("/mnt", path)
		fmt.Printf("GUEST %s %x %q\n", filepath.Base(disk), sha256.Sum256(data), rel)
		return nil
	})
}
