package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"machined/api"
	"machined/board"
	"machined/hal"
	"machined/hal/linux"
	"machined/init/install"
	"machined/init/netboot"
	"machined/init/sequence"
	"machined/init/upgrade"
	"machined/reconcile/block"
	"machined/reconcile/resource"
)

// A node that runs from RAM, or from a stick, writes itself to the disk that its
// config names, or that a person does, and boots from there.

const (
	// installDir is where the new boot partition is mounted meanwhile.
	installDir = "/run/machined/install"

	installWaiting = "Waiting"
	installWriting = "Installing"
	installDone    = "Installed"
	installRefused = "Refused"
	installFailed  = "Failed"

	// installPause is from a failure to the next attempt that the config asks for,
	// doubled each time: a server may be away for a while. A disk that fails again
	// and again is not written for ever.
	installPause    = time.Minute
	installAttempts = 6

	// installTells is how often the server is told that the disk boots from now on.
	installTells = 5
)

// installs is what the loop, the API and the job share about an installation.
type installs struct {
	mu     sync.Mutex
	status resource.InstallStatus
	moved  bool // since it was published
	// wanted are the calls of the API that wait for the loop.
	wanted []wantedInstall
	// failed counts the attempts for the config; retry is when the next is due, in
	// nanoseconds since boot, 0 for not.
	failed int
	retry  int64
	// settled: the config's disk was dealt with, in one way or the other. It is the
	// loop's.
	settled bool
}

// wantedInstall is a call of the API.
type wantedInstall struct {
	by, disk       string
	wipe, noReboot bool
	answer         chan error // has room for one
}

func (i *installs) show(change func(*resource.InstallStatus)) {
	i.mu.Lock()
	change(&i.status)
	i.moved = true
	i.mu.Unlock()
}

func (i *installs) now() resource.InstallStatus {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.status
}

// installsSystem says whether the disk of the config is to get the whole system,
// and not the volumes alone.
func (n *node) installsSystem() bool {
	i := n.loaded.Config.Machine.Install
	return i != nil && (i.System || n.boot.Netbooted)
}

// followInstall begins the installation that the config asks for, and publishes.
func (n *node) followInstall() {
	i := &n.installs
	i.mu.Lock()
	wanted := i.wanted
	i.wanted = nil
	if i.retry != 0 && n.clock.SinceBoot() >= i.retry {
		i.settled, i.retry = false, 0
	}
	i.mu.Unlock()
	for _, w := range wanted {
		w.answer <- n.installAsked(w)
	}
	if !i.settled && !n.boot.Resident && n.installsSystem() && n.state.settled && n.blocks.Scans() > 0 && (!n.boot.Netbooted || n.netboot.settled) {
		n.installByConfig()
	}
	i.mu.Lock()
	status, moved := i.status, i.moved
	i.moved = false
	i.mu.Unlock()
	if moved {
		n.put(n.store.Installs.Put(n.by, status))
	}
}

// installByConfig deals with the disk of the config, once it is there.
func (n *node) installByConfig() {
	c := n.loaded.Config.Machine.Install
	var found []hal.BlockDevice
	selector := blockSettings(n.loaded.Config.Machine).Selector
	for _, d := range n.blocks.Devices() {
		if d.Number == 0 && (c.Disk != "" && d.Path == c.Disk || selector != nil && selector.Matches(d)) {
			found = append(found, d)
		}
	}
	if len(found) == 0 {
		n.sayInstall(installWaiting, c.Disk, "waiting for the disk that install.disk names")
		return
	}
	n.installs.settled = true
	if len(found) > 1 {
		n.sayInstall(installRefused, "", fmt.Sprintf("install.disk matches %s and %s; name one of them", found[0].Path, found[1].Path))
		return
	}
	disk := found[0].Path
	if found[0].Name == n.boot.BootDisk {
		n.sayInstall(installDone, disk, "the node runs from it")
		return
	}
	wipe, installed, err := n.installable(disk, c.Wipe)
	switch {
	case installed:
		n.sayInstall(installDone, disk, "a node is on it already; have the firmware boot from it")
		tell := n.installedTeller()
		n.jobs.Start(func() error { tell(); return nil })
	case err != nil:
		n.sayInstall(installRefused, disk, err.Error())
	default:
		if err := n.beginInstall(byConfig, disk, wipe, false); err != nil {
			n.installFailed(byConfig, disk, err)
		}
	}
}

// byConfig is who asks for what the config has.
const byConfig = "the config"

// installFailed says so, and has what the config asks for tried again.
func (n *node) installFailed(by, disk string, err error) {
	i, next := &n.installs, "`machinectl install` tries it again"
	if by == byConfig {
		i.mu.Lock()
		if i.failed++; i.failed < installAttempts {
			pause := installPause << (i.failed - 1)
			i.retry = n.clock.SinceBoot() + int64(pause)
			next = "trying again in " + pause.String()
		}
		i.mu.Unlock()
	}
	n.sayInstall(installFailed, disk, fmt.Sprintf("%v; %s", err, next))
}

func (n *node) sayInstall(phase, disk, message string) {
	s := n.installs.now()
	if s.Phase == phase && s.Disk == disk && s.Message == message {
		return
	}
	n.installs.show(func(s *resource.InstallStatus) { s.Phase, s.Disk, s.Message = phase, disk, message })
	n.log.Printf("install", "%s: %s.", strings.TrimPrefix(disk+" "+phase, " "), message)
}

// installable reads the table of what may be done with a disk. wipe is whether it
// has to be wiped, and its owner has agreed to that; installed says that it has a
// boot partition of ours.
func (n *node) installable(path string, mayWipe bool) (wipe, installed bool, err error) {
	devices := n.blocks.Devices()
	var disk hal.BlockDevice
	var parts []hal.BlockDevice
	for _, d := range devices {
		if d.Number == 0 && d.Path == path {
			disk = d
		}
	}
	if disk.Name == "" {
		return false, false, fmt.Errorf("there is no disk %s; `machinectl get DiskStatus` lists them", path)
	}
	for _, d := range devices {
		if d.Disk == disk.Name && d.Number > 0 {
			parts = append(parts, d)
		}
	}
	if disk.Name == n.boot.BootDisk {
		return false, false, fmt.Errorf("the node runs from %s", path)
	}
	boot := block.BootOn(parts)
	d := block.Decide(disk, parts, boot, mayWipe)
	switch {
	case d.Action == block.Refuse:
		return false, false, errors.New(d.Why)
	case boot != "":
		return false, true, fmt.Errorf("a node is on %s already: boot from it, or clear the disk", path)
	case d.Found[0].Name != "" || d.Found[1].Name != "":
		return false, false, fmt.Errorf("%s has the volumes of a node and no boot partition; clear the disk, or name another", path)
	case len(parts) > 0 && d.Action != block.Wipe && !mayWipe:
		return false, false, fmt.Errorf("%s has an EFI system partition that is not ours; set install.wipe: true to destroy that", path)
	}
	return len(parts) > 0 || d.Action == block.Wipe, false, nil
}

// Install is a part of api.Upgrades.
func (n *node) Install(by, disk string, wipe, noReboot bool) error {
	w := wantedInstall{by: by, disk: disk, wipe: wipe, noReboot: noReboot, answer: make(chan error, 1)}
	n.installs.mu.Lock()
	n.installs.wanted = append(n.installs.wanted, w)
	n.installs.mu.Unlock()
	n.kick()
	select {
	case err := <-w.answer:
		return err
	case <-time.After(applyPatience):
		return errors.New("the node has not looked at the disk yet; see its InstallStatus")
	}
}

func (n *node) installAsked(w wantedInstall) error {
	if n.boot.Resident {
		return &api.Failure{Cause: api.NotNow, Err: errors.New("the node is handing over to its system; ask again in a moment")}
	}
	if m := n.upgrades.get(); m != nil && m.OnTrial() {
		return &api.Failure{Cause: api.NotNow, Err: upgrade.ErrTrial}
	}
	wipe, _, err := n.installable(w.disk, w.wipe)
	if err != nil {
		return &api.Failure{Cause: api.NotNow, Err: err}
	}
	return n.beginInstall(w.by, w.disk, wipe, w.noReboot)
}

// beginInstall starts the job. One at a time, and none beside an upgrade.
func (n *node) beginInstall(by, disk string, wipe, noReboot bool) error {
	source, err := n.installSource()
	if err != nil {
		return &api.Failure{Cause: api.NotNow, Err: err}
	}
	if err := n.lock.Take(sequence.Upgrade); err != nil {
		return &api.Failure{Cause: api.NotNow, Err: err}
	}
	files, err := n.installFiles()
	if err != nil {
		n.lock.Release(sequence.Upgrade)
		return err
	}
	b, _ := board.ByName(n.boot.Board)
	table := hal.MBR
	if b.Firmware == board.UEFI {
		table = hal.GPT
	}
	n.sayInstall(installWriting, disk, "asked for by "+by)
	r := install.Request{Disk: disk, Wipe: wipe, Table: table, Source: source, Files: files, Slot: max(n.boot.Slot, "A"), Progress: n.installProgress()}
	run, tell := n.installer(b), n.installedTeller()
	n.jobs.Start(func() error {
		defer n.lock.Release(sequence.Upgrade)
		if err := run.Run(context.Background(), r); err != nil {
			n.installFailed(by, disk, err)
			return err
		}
		n.sayInstall(installDone, disk, "the node boots from it next")
		tell()
		if noReboot {
			return nil
		}
		return n.askFor(request{end: restart, by: "machined", reason: upgrade.ByInstall, detail: "installed on " + disk})
	})
	return nil
}

// installer works on the partition of the new disk, which it mounts.
func (n *node) installer(b board.Board) install.Drivers {
	dir := n.at(installDir)
	return install.Drivers{
		Provisioner: n.provisioner, Mounts: n.mounts, Dir: dir, Say: n.say("install"),
		BootFiles: func(device string) hal.BootFiles {
			return &linux.BootFiles{Dir: dir, Remount: linux.RemountBoot(n.mounts, install.Mount(device, dir))}
		},
		Bootloader: func(files hal.BootFiles) hal.Bootloader { return loaderOf(b, files) },
	}
}

// installProgress publishes each MiB, and tells the loop.
func (n *node) installProgress() func(done, total int64) {
	shown := int64(-1)
	return func(done, total int64) {
		if done>>20 == shown {
			return
		}
		shown = done >> 20
		n.installs.show(func(s *resource.InstallStatus) { s.Bytes, s.TotalBytes = done, total })
		n.kick()
	}
}

// installSource is what the disk gets its boot partition from.
func (n *node) installSource() (install.Source, error) {
	if !n.boot.Netbooted {
		return install.Partition{Device: n.boot.BootPartition}, nil
	}
	client, session := n.netboot.client, n.netboot.session
	if client == nil || session == "" {
		return nil, errors.New("the node has no netboot server to get the image from")
	}
	return install.Image{Fetch: func(ctx context.Context) (io.ReadCloser, error) {
		http, url := client.Image(session)
		return upgrade.NewFetch(ctx, http, url, n.say("install")), nil
	}}, nil
}

// installFiles are the config and the identity, as the boot partition has them.
func (n *node) installFiles() (map[string][]byte, error) {
	const dir = "machined/"
	files := make(map[string][]byte)
	if len(n.loaded.Raw) > 0 {
		files[dir+configName] = n.loaded.Raw
	}
	for _, from := range []string{statePKI, servedPKI, cardPKI} {
		list, err := os.ReadDir(n.at(from))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("take the identity along: %w", err)
		}
		for _, e := range list {
			text, err := readConfig(filepath.Join(n.at(from), e.Name()))
			if err != nil {
				return nil, fmt.Errorf("take the identity along: %w", err)
			}
			files[dir+"pki/"+e.Name()] = text
		}
		break
	}
	return files, nil
}

// installedTeller returns what has the netboot server let the board boot from its
// disk. That takes as long as the server does.
func (n *node) installedTeller() func() {
	client, session := n.netboot.client, n.netboot.session
	if client == nil || session == "" {
		return func() {}
	}
	return func() {
		var err error
		for range installTells {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			err = client.Tell(ctx, session, netboot.Status{Phase: "installed", Percent: 100, Message: n.installs.now().Message})
			cancel()
			if err == nil {
				return
			}
			time.Sleep(time.Second)
		}
		n.log.Printf("install", "The netboot server does not know, and may boot the board from the network again: %v.", err)
	}
}
