package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"machined/hal"
)

const (
	newRoot    = "/newroot" // the slot's squashfs, before the switch
	systemFile = "system.squashfs"
)

// mountSystem mounts the slot's squashfs, or that of the initramfs, at newRoot.
func (n *node) mountSystem() error {
	file := filepath.Join(bootDir, n.boot.Slot, systemFile)
	if n.boot.Netbooted {
		file = ramSystem // its pages stay in RAM for as long as the loop device has it
	}
	device, release, err := n.mounts.AttachLoop(file)
	if err != nil {
		return err
	}
	defer release()
	if err := os.MkdirAll(n.at(newRoot), 0o755); err != nil {
		return err
	}
	return n.mounts.Mount(hal.Mount{Source: device, Target: newRoot, FSType: "squashfs", Flags: hal.ReadOnly | hal.NoDev})
}

// switchRoot makes newRoot the root and unlinks the initramfs, whose memory
// comes back when the program executes itself from the new root.
func switchRoot(m hal.Mounts) error {
	all, err := m.List()
	if err != nil {
		return err
	}
	for _, dir := range []string{bootDir, stateDir, "/proc", "/sys", "/dev", "/run", "/tmp"} {
		if _, mounted := mountedAt(all, dir); !mounted {
			continue
		}
		if err := m.Mount(hal.Mount{Source: dir, Target: newRoot + dir, Flags: hal.Move}); err != nil {
			return err
		}
	}
	if err := os.RemoveAll("/init"); err != nil {
		return fmt.Errorf("free the initramfs: %w", err)
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := m.Mount(hal.Mount{Source: newRoot, Target: "/", Flags: hal.Move}); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("switch root: %w", err)
	}
	return os.Chdir("/")
}

// mountedAt returns the device that is mounted at target.
func mountedAt(all []hal.MountInfo, target string) (string, bool) {
	for _, m := range all {
		if m.Target == target {
			return m.Source, true
		}
	}
	return "", false
}
