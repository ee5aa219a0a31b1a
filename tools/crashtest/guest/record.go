package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/linux"
	"machined/hal/linux/fat"
	"machined/tools/crashtest/scenario"
)

// bootMount is how a node mounts its boot partition.
func bootMount(disk string) hal.Mount {
	return hal.Mount{
		Source: disk + "1", Target: "/boot", FSType: "vfat",
		Flags: hal.ReadOnly | hal.NoSuid | hal.NoDev, Data: "umask=0077",
	}
}

// partition is a boot partition that is mounted.
type partition struct {
	mount hal.Mount
	files *linux.BootFiles
}

func mountBoot(disk string) (*partition, error) {
	p := &partition{mount: bootMount(disk)}
	p.files = &linux.BootFiles{Dir: p.mount.Target, Remount: linux.RemountBoot(linux.Mounts{}, p.mount)}
	if err := os.MkdirAll(p.mount.Target, 0o755); err != nil {
		return nil, err
	}
	return p, linux.Mounts{}.Mount(p.mount)
}

func (p *partition) unmount() error { return linux.Mounts{}.Unmount(p.mount.Target, false) }

// restart has all caches dropped, as a reset does. What was never flushed gets
// to the disk all the same: the cuts are made of the recorded writes.
func (p *partition) restart() error { return errors.Join(p.unmount(), linux.Mounts{}.Mount(p.mount)) }

// notes writes moments to the second partition, past the page cache, so that
// they are in their place among the recorded writes. It flushes nothing.
type notes struct {
	file   *os.File
	sector []byte // aligned, as O_DIRECT wants it
}

func openNotes(disk string) (*notes, error) {
	file, err := os.OpenFile(disk+"2", os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return nil, err
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &notes{file: file, sector: page[:scenario.NoteBytes]}, nil
}

func (n *notes) write(m scenario.Moment) error {
	text, err := m.Encode()
	if err != nil {
		return err
	}
	copy(n.sector, text)
	if _, err := n.file.WriteAt(n.sector, 0); err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	return nil
}

// record runs a scenario on a disk that is recorded.
func record(disk string, b scenario.Backend, s scenario.Scenario, mode scenario.Mode) error {
	p, err := mountBoot(disk)
	if err != nil {
		return err
	}
	n, err := openNotes(disk)
	if err != nil {
		return err
	}
	node := &scenario.Node{Backend: b, Boot: os.DirFS(p.mount.Target), Note: n.write}
	end := func() error { return nil }
	switch mode {
	case scenario.NoFlush:
		node.Files, node.Restart = &unflushed{BootFiles: p.files, dir: p.mount.Target}, p.restart
	case scenario.NoOrder:
		o, err := reorder(p.files, node.Boot)
		if err != nil {
			return err
		}
		node.Files, node.Boot, end = o, scenario.View{BootFiles: o.BootFiles}, o.drain
	default:
		node.Files, node.Restart = p.files, p.restart
	}
	return errors.Join(node.Run(s), end(), n.file.Close(), p.unmount())
}

// upgrade is what follows a cut: a repair, a boot, and a new version. Without the
// repair the kernel makes some volumes read-only when it frees their clusters.
func upgrade(disk string, b scenario.Backend) error {
	n, err := openNotes(disk)
	if err != nil {
		return err
	}
	if err := look(disk, b, n, "a power cut"); err != nil {
		return err
	}
	if _, _, err := fat.RepairDevice(disk + "1"); err != nil {
		return err
	}
	if err := look(disk, b, n, "its repair"); err != nil {
		return err
	}
	p, err := mountBoot(disk)
	if err != nil {
		return err
	}
	node := &scenario.Node{Backend: b, Boot: os.DirFS(p.mount.Target), Files: p.files, Restart: p.restart, Note: n.write}
	return errors.Join(node.Upgrade("v9"), n.file.Close(), p.unmount())
}

// look notes what would boot, and leaves the disk as it is.
func look(disk string, b scenario.Backend, n *notes, after string) error {
	p, err := mountBoot(disk)
	if err != nil {
		return err
	}
	node := &scenario.Node{Backend: b, Boot: os.DirFS(p.mount.Target), Files: p.files, Note: n.write}
	return errors.Join(node.Begin(after), p.unmount())
}
