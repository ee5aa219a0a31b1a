package linux

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"machined/hal"
)

const (
	// patience is how long a disk may take to be read. A card that has not
	// answered by then is reported, and the others are looked at.
	patience = 10 * time.Second
	// quiet is how long the kernel has to have said nothing before a scan: a
	// disk with partitions comes in many pieces. settle bounds that wait.
	quiet  = 100 * time.Millisecond
	settle = time.Second
	// again is the pause before a disk in trouble is read once more, and
	// between scans where the kernel's events cannot be had.
	again = 30 * time.Second
)

// BlockDevices is the real hal.BlockDevices. Run does its work.
type BlockDevices struct {
	sys, dev string // where sysfs and devtmpfs are mounted
	patience time.Duration
	open     func(path string) (blockFile, error)
	listen   func() (ueventSource, error)

	scans atomic.Uint64
	kick  chan struct{} // somebody wants a scan

	mu      sync.Mutex
	devices []hal.BlockDevice
	events  map[string]uint64 // seen so far, by disk; "" for all of them

	// Of Run's goroutine alone, by disk.
	known   map[string]knownDisk
	pending map[string]<-chan reading // those that have not come back
}

// blockFile is a device that is open for reading.
type blockFile interface {
	io.ReaderAt
	io.Closer
}

// ueventSource tells of devices that come and go.
type ueventSource interface {
	next() (uevent, error)
	io.Closer
}

// reading is what came of reading a disk.
type reading struct {
	devices []hal.BlockDevice
	failed  bool // not all of it could be read
}

// knownDisk is a disk as it was found, and by what a change would show.
type knownDisk struct {
	reading
	print string
}

// NewBlockDevices returns the driver for the machine whose sysfs and devtmpfs
// are mounted at sys and dev.
func NewBlockDevices(sys, dev string) *BlockDevices {
	return &BlockDevices{
		sys: sys, dev: dev, patience: patience, open: openBlock, listen: listenUevents, kick: make(chan struct{}, 1),
		events: make(map[string]uint64), known: make(map[string]knownDisk), pending: make(map[string]<-chan reading),
	}
}

// Devices implements hal.BlockDevices.
func (b *BlockDevices) Devices() []hal.BlockDevice {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.devices
}

// Scans implements hal.BlockDevices.
func (b *BlockDevices) Scans() uint64 { return b.scans.Load() }

// Rescan implements hal.BlockDevices.
func (b *BlockDevices) Rescan() { b.note("") }

// note makes the next scan read a disk again, or all for "", and asks for it.
func (b *BlockDevices) note(disk string) {
	b.mu.Lock()
	b.events[disk]++
	b.mu.Unlock()
	b.wake()
}

func (b *BlockDevices) wake() {
	select {
	case b.kick <- struct{}{}:
	default: // one is asked for already
	}
}

// Run looks for devices until ctx ends. It calls changed after each scan that
// found something else than the one before, and warn, once, when the kernel's
// events cannot be had: then it looks twice a minute.
func (b *BlockDevices) Run(ctx context.Context, changed func(), warn func(error)) {
	source, err := b.listen() // before the first scan, so that nothing is missed
	if err != nil {
		warn(err)
	} else {
		stop := context.AfterFunc(ctx, func() { source.Close() })
		defer func() {
			if stop() {
				source.Close()
			}
		}()
		go b.follow(source)
	}
	for ctx.Err() == nil {
		if b.scan() {
			changed()
		}
		var retry <-chan time.Time
		if err != nil || b.inTrouble() {
			retry = time.After(again)
		}
		select {
		case <-ctx.Done():
		case <-b.kick:
			b.settle(ctx)
		case <-retry:
			b.forgetTrouble()
		}
	}
}

// follow notes the disks of which the kernel speaks.
func (b *BlockDevices) follow(source ueventSource) {
	for {
		e, err := source.next()
		switch {
		case errors.Is(err, errLost):
			b.note("")
		case err != nil:
			return // it is closed
		case e.subsystem == "block" && !leftOut(e.disk):
			b.note(e.disk)
		}
	}
}

// settle waits until nothing was heard for a while.
func (b *BlockDevices) settle(ctx context.Context) {
	end := time.After(settle)
	for {
		select {
		case <-b.kick:
		case <-time.After(quiet):
			return
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (b *BlockDevices) inTrouble() bool {
	for _, k := range b.known {
		if k.failed {
			return true
		}
	}
	return false
}

// forgetTrouble has the disks in trouble be read again.
func (b *BlockDevices) forgetTrouble() {
	for name, k := range b.known {
		if k.failed {
			delete(b.known, name)
		}
	}
}

// scan looks at what there is, and reports whether it is something else than
// before.
func (b *BlockDevices) scan() bool {
	var found []hal.BlockDevice
	seen := make(map[string]bool)
	for _, d := range b.list() {
		seen[d.name] = true
		print := d.print + b.heard(d.name)
		k, ok := b.known[d.name]
		if !ok || k.print != print {
			k = knownDisk{print: print, reading: b.readInTime(d)}
			b.known[d.name] = k
		}
		found = append(found, k.devices...)
	}
	for name := range b.known {
		if !seen[name] {
			delete(b.known, name)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.scans.Load() > 0 && slices.Equal(found, b.devices) {
		return false
	}
	b.devices = found
	b.scans.Add(1)
	return true
}

// readInTime reads a disk, but does not wait for ever. A read that hangs cannot
// be ended; no second one is started on the same disk.
func (b *BlockDevices) readInTime(d sysDisk) reading {
	if done, ok := b.pending[d.name]; ok {
		select {
		case <-done: // it is old by now
			delete(b.pending, d.name)
		default:
			return d.silent(b.dev)
		}
	}
	done, late := make(chan reading, 1), make(chan struct{})
	go func() {
		done <- b.read(d)
		select {
		case <-late:
			b.note(d.name)
		default:
		}
	}()
	select {
	case r := <-done:
		return r
	case <-time.After(b.patience):
	}
	close(late)
	select {
	case r := <-done: // at the last moment, before it could see that it is late
		return r
	default:
		b.pending[d.name] = done
		return d.silent(b.dev)
	}
}

// leftOut reports whether a disk of that name is none that data is kept on:
// the hardware partitions of an eMMC, and what is made of files and memory.
func leftOut(disk string) bool {
	for _, prefix := range []string{"loop", "ram", "zram", "dm-", "fd", "mtdblock", "nbd"} {
		if rest, ok := strings.CutPrefix(disk, prefix); ok && strings.Trim(rest, "0123456789") == "" {
			return true
		}
	}
	return strings.HasPrefix(disk, "mmcblk") && (strings.Contains(disk, "boot") || strings.Contains(disk, "rpmb"))
}

var _ hal.BlockDevices = (*BlockDevices)(nil)
