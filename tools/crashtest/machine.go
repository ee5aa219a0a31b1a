package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"

	"machined/tools/crashtest/scenario"
	"machined/tools/lab"
)

// errMissing says that what a guest needs is not there.
var errMissing = errors.New("not there; `make setup` installs it")

// machine is what runs guests: QEMU, with a kernel that machined ships.
type machine struct {
	qemu, kernel, initramfs string
}

// newMachine builds the guest in dir.
func newMachine(dir string) (machine, error) {
	m := machine{initramfs: filepath.Join(dir, "initramfs")}
	var err error
	if m.qemu, err = exec.LookPath("qemu-system-x86_64"); err != nil {
		return m, fmt.Errorf("%w: %w", errMissing, err)
	}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gokrazy/kernel.amd64").Output()
	if err != nil {
		return m, fmt.Errorf("find the kernel's module: %w", err)
	}
	m.kernel = filepath.Join(strings.TrimSpace(string(module)), "vmlinuz")
	if _, err := os.Stat(m.kernel); err != nil {
		return m, fmt.Errorf("the kernel: %w: %w", errMissing, err)
	}
	program := filepath.Join(dir, "guest")
	if err := lab.Compile(program, "amd64", "machined/tools/crashtest/guest"); err != nil {
		return m, fmt.Errorf("build the guest: %w", err)
	}
	return m, packInitramfs(m.initramfs, program)
}

func packInitramfs(path, program string) error {
	init, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := cpio.Newc.Writer(f)
	err = cpio.WriteRecords(w, []cpio.Record{
		cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1), cpio.StaticFile("init", string(init), 0o755),
	})
	if err = errors.Join(err, cpio.WriteTrailer(w)); err != nil {
		return fmt.Errorf("pack the guest: %w", err)
	}
	return f.Close()
}

// drive is a disk of a guest.
type drive struct {
	job  scenario.Job
	path string
	log  string // gets the record of its writes; empty for none
}

// perSlot is how many functions a PCI slot has, and firstSlot the first slot
// that is free on QEMU's machine "pc".
const perSlot, firstSlot = 8, 4

// run starts a guest with the drives and waits until it is done with all. It
// returns what went wrong with each, nil for nothing.
func (m machine) run(ctx context.Context, drives []drive) ([]error, error) {
	args := []string{
		"-accel", "tcg,thread=single", "-m", "512", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", m.kernel, "-initrd", m.initramfs, "-append", "console=ttyS0 quiet panic=-1",
	}
	for i, d := range drives {
		more, err := d.arguments(i)
		if err != nil {
			return nil, err
		}
		args = append(args, more...)
	}
	cmd := exec.CommandContext(ctx, m.qemu, args...)
	out, err := cmd.CombinedOutput()
	console := strings.ReplaceAll(string(out), "\r\n", "\n")
	if err != nil {
		return nil, fmt.Errorf("run the guest: %w\n%s", errors.Join(err, ctx.Err()), console)
	}
	ended := make([]error, len(drives))
	for i, d := range drives {
		if strings.Contains(console, scenario.Done+d.job.Serial()+"\n") {
			continue
		}
		_, why, found := strings.Cut(console, scenario.Failed+d.job.Serial()+": ")
		if !found {
			return nil, fmt.Errorf("the guest did not come to %s:\n%s", d.job.Serial(), console)
		}
		why, _, _ = strings.Cut(why, "\n")
		ended[i] = errors.New(why)
	}
	return ended, nil
}

// arguments attach the drive as the nth, with a write-back cache that the guest
// has to flush. QEMU itself flushes nothing to the file: it outlives the guest.
func (d drive) arguments(n int) ([]string, error) {
	node := fmt.Sprint("disk", n)
	args := []string{"-blockdev", fmt.Sprintf("driver=raw,node-name=%s,cache.no-flush=on,file.driver=file,file.filename=%s", node, d.path)}
	if d.log != "" {
		if err := os.WriteFile(d.log, nil, 0o600); err != nil {
			return nil, err
		}
		args = append(args,
			"-blockdev", fmt.Sprintf("driver=raw,node-name=log%d,cache.no-flush=on,file.driver=file,file.filename=%s", n, d.log),
			"-blockdev", fmt.Sprintf("driver=blklogwrites,node-name=recorded%d,file=%s,log=log%d,log-sector-size=512", n, node, n))
		node = fmt.Sprint("recorded", n)
	}
	return append(args, "-device", fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%s,write-cache=on,multifunction=on,addr=%d.%d",
		node, d.job.Serial(), firstSlot+n/perSlot, n%perSlot)), nil
}
