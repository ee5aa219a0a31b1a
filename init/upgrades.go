package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"machined/api"
	"machined/board"
	"machined/hal"
	"machined/init/bootpart"
	"machined/init/config"
	"machined/init/sequence"
	"machined/init/upgrade"
	"machined/reconcile/resource"
	"machined/rpi"
	"machined/x86"
)

// upgrades is what the loop and the API share about the slots.
type upgrades struct {
	*upgrade.Manager
	// last is why the machine went down before.
	last ended
	seen atomic.Uint64 // version of the manager that was published

	mu     sync.Mutex
	cancel context.CancelFunc // of the upgrade under way
}

// stopPatience bounds the wait for an upgrade that is to end with the machine.
const stopPatience = 20 * time.Second

// startUpgrades finds out what this boot is, once STATE is there or is known not
// to come. It reads the card, and so runs beside the loop.
func (n *node) startUpgrades() {
	loader := n.bootloader()
	if loader == nil || n.upgrades.Manager != nil {
		return
	}
	v := n.Version()
	m := upgrade.New(upgrade.Drivers{
		Bootloader: loader, Files: n.files, OnState: n.stateFile, Kick: n.kick, Say: n.say("upgrade"),
		Reboot: func(r upgrade.Restart) error {
			return n.askFor(request{end: restart, by: "machined", reason: r.Reason, detail: r.Detail, slot: r.Slot, argument: r.Argument, kexec: r.Kexec})
		},
		Load: n.kernelLoader(), Prober: n.prober(loader),
	}, n.upgradeFacts(v))
	m.SetPolicy(n.upgradePolicy())
	last := n.readEnd(v.BootID)
	n.upgrades.mu.Lock()
	n.upgrades.Manager, n.upgrades.last = m, last
	n.upgrades.mu.Unlock()
	n.jobs.Start(func() error {
		if err := n.beginEnd(v.BootID); err != nil {
			n.log.Printf("state", "%v.", err)
		}
		err := m.Boot(last.forPeople())
		if err != nil {
			n.log.Printf("upgrade", "%v.", err)
		}
		return err
	})
}

// kexecMark tells a system that it was started by kexec.
const kexecMark = "machined.kexec=1"

// upgradeFacts are about the running system, and how it was started.
func (n *node) upgradeFacts(v api.Version) upgrade.Facts {
	f := upgrade.Facts{Board: n.boot.Board, Slot: n.boot.Slot, Version: v.Version, BootID: v.BootID}
	line, err := os.ReadFile(n.at("/proc/cmdline"))
	if err != nil {
		n.log.Printf("upgrade", "%v.", err)
	}
	words := strings.Fields(string(line))
	f.Kexec, f.Probed = slices.Contains(words, kexecMark), slices.Contains(words, hal.TrialProbeMark)
	return f
}

// kernelLoader loads the kernel of a slot, nil where this one cannot.
func (n *node) kernelLoader() func(slot string) error {
	if b, ok := board.ByName(n.boot.Board); !ok || b.Firmware != board.UEFI {
		return nil // the firmware of a Pi makes the device tree
	}
	if _, err := os.Stat(n.at("/sys/kernel/kexec_loaded")); err != nil {
		return nil
	}
	return func(slot string) error {
		line, err := n.bootFiles.Read(slot + "/" + hal.CommandLineName)
		if err != nil {
			return fmt.Errorf("read the arguments of slot %s: %w", slot, err)
		}
		dir := n.at(bootDir + "/" + slot)
		return n.power.LoadKernel(dir+"/"+x86.KernelFile, dir+"/"+x86.InitramfsFile, strings.TrimSpace(string(line))+" "+kexecMark)
	}
}

// prober asks the firmware of a Raspberry Pi what it does, unless the config says.
func (n *node) prober(loader hal.Bootloader) hal.TrialProber {
	if n.loaded.Config.Machine.Upgrade.Firmware != config.FirmwareAuto {
		return nil
	}
	p, _ := loader.(hal.TrialProber)
	return p
}

// bootloader is that of the board, nil for none.
func (n *node) bootloader() hal.Bootloader {
	b, ok := board.ByName(n.boot.Board)
	if !ok || n.bootFiles == nil {
		return nil
	}
	loader := loaderOf(b, n.bootFiles)
	switch l := loader.(type) {
	case *x86.Bootloader:
		l.Pin = n.pinnedEntry
	case *rpi.Bootloader:
		if n.loaded.Config.Machine.Upgrade.Firmware == config.FirmwareFlipFirst {
			l.FlipFirst()
		}
	}
	return loader
}

// loaderOf is the bootloader of a board's boot partition.
func loaderOf(b board.Board, files hal.BootFiles) hal.Bootloader {
	if b.Firmware == board.UEFI {
		return &x86.Bootloader{Files: files}
	}
	return &rpi.Bootloader{Files: files}
}

// pinnedVariable is what `bootctl set-default` sets, and the loader's menu.
const pinnedVariable = "/sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

// pinnedEntry is the entry that the user has set for the loader to boot, "" for
// none.
func (n *node) pinnedEntry() string {
	variable, err := os.ReadFile(n.at(pinnedVariable))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	var entry string
	if err == nil {
		entry, err = bootpart.LoaderString(variable)
	}
	if err != nil {
		// Something is set, and a trial may not be what boots.
		n.log.Printf("upgrade", "The loader's default cannot be read: %v.", err)
		return "an entry that cannot be read"
	}
	return entry
}

// upgradePolicy is the config's, in the words of the manager.
func (n *node) upgradePolicy() upgrade.Policy {
	c := n.loaded.Config.Machine.Upgrade
	return upgrade.Policy{
		AutoRollback: c.AutoRollback, Keys: c.Keys, MinVersion: c.MinVersion, Deadline: c.Health.Deadline, Hold: c.Health.Hold,
	}
}

// followUpgrades watches a trial and publishes. It returns when it is to be called
// again, in nanoseconds since boot.
func (n *node) followUpgrades(now int64) int64 {
	m := n.upgrades.Manager
	if m == nil {
		return now + int64(idlePass)
	}
	if n.systemStatus != nil {
		m.GiveUp(now, "its system cannot be used: "+n.systemStatus.Message)
	}
	next := m.Step(now, func() string { return n.unhealthy(now) })
	s, b, version := m.Snapshot()
	if version == n.upgrades.seen.Load() {
		return next
	}
	defer n.upgrades.seen.Store(version)
	n.put(n.store.Upgrades.Put(n.by, resource.UpgradeStatus{
		Phase: string(s.Phase), Message: s.Message, Slot: s.Slot, FromVersion: s.FromVersion, ToVersion: s.ToVersion, Bytes: s.Bytes, TotalBytes: s.Total,
	}))
	trial := m.OnTrial()
	n.markTrial(trial)
	for _, slot := range b.Slots {
		if slot.Name == "" {
			continue // not read yet
		}
		status := resource.SlotStatus{
			Slot: slot.Name, Version: slot.Version, Tries: int64(slot.Tries),
			Running: slot.Name == m.Slot, Default: slot.Name == b.Default,
		}
		status.State, status.LastBoot, status.Reason = m.Told(slot)
		n.put(n.store.Slots.Put(n.by, status))
	}
	problem := b.Problem
	switch {
	case m.Kexec:
		problem = "" // of a slot that runs though the firmware boots the other
	case m.Ignored():
		problem = strings.TrimPrefix(problem+"; the firmware ignores the request for a trial: an upgrade makes the new version the default first", "; ")
	}
	if b.Pinned != "" {
		problem = strings.TrimPrefix(problem+"; the loader's default is pinned to "+b.Pinned, "; ")
	}
	n.put(n.store.Boots.Put(n.by, resource.BootStatus{
		Slot: m.Slot, BootID: m.BootID, Reason: string(n.upgrades.last.Reason), Detail: n.upgrades.last.Detail, Problem: problem, Trial: trial,
	}))
	return next
}

// The methods below are those of api.Upgrades; they run on the API's goroutines.

// get returns the manager of the slots, nil while there is none.
func (u *upgrades) get() *upgrade.Manager {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.Manager
}

// manager returns the manager of the slots, or why there is none.
func (n *node) manager() (*upgrade.Manager, error) {
	if m := n.upgrades.get(); m != nil {
		return m, nil
	}
	return nil, &api.Failure{Cause: api.NotNow, Err: errors.New("the node has not found its slots yet; ask again in a moment")}
}

// upgradeMemory is from where on the Go runtime collects what is left lying of a
// bundle before it takes more, in bytes of all that it has.
const upgradeMemory = 12 << 20

// beginUpgrade makes an upgrade the only one under way, and returns what runs it to
// its end and has to be called, once. That ends with ctx, and with the machine.
func (n *node) beginUpgrade(ctx context.Context, o upgrade.Options) (install func(open func(context.Context) io.ReadCloser) error, err error) {
	m, err := n.manager()
	if err != nil {
		return nil, err
	}
	if err := n.lock.Take(sequence.Upgrade); err != nil {
		return nil, &api.Failure{Cause: api.NotNow, Err: err}
	}
	begun, err := m.Begin(o)
	if err != nil {
		n.lock.Release(sequence.Upgrade)
		return nil, classed(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	n.upgrades.mu.Lock()
	n.upgrades.cancel = cancel
	n.upgrades.mu.Unlock()
	return func(open func(context.Context) io.ReadCloser) error {
		defer n.lock.Release(sequence.Upgrade)
		defer cancel()
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(upgradeMemory))
		r := open(ctx)
		defer r.Close()
		return classed(begun(ctx, r))
	}, nil
}

// classed says what a client can make of an error of an upgrade.
func classed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, upgrade.ErrRefused):
		return &api.Failure{Cause: api.BadInput, Err: err}
	case errors.Is(err, upgrade.ErrBusy), errors.Is(err, upgrade.ErrTrial), errors.Is(err, upgrade.ErrNoTrial),
		errors.Is(err, upgrade.ErrNoFallback), errors.Is(err, upgrade.ErrUnproven), errors.Is(err, upgrade.ErrNothingStaged),
		errors.Is(err, upgrade.ErrNoKexec), errors.Is(err, upgrade.ErrKexec), errors.Is(err, hal.ErrNoSpace), errors.Is(err, hal.ErrInvalid):
		return &api.Failure{Cause: api.NotNow, Err: err}
	}
	return err
}

// Push is a part of api.Upgrades.
func (n *node) Push(ctx context.Context, by string, r io.Reader, o api.UpgradeOptions) (version, slot string, err error) {
	n.log.Printf("upgrade", "Asked for by %s.", by)
	install, err := n.beginUpgrade(ctx, upgrade.Options{Stage: o.Stage, Manual: o.ManualCommit, Kexec: o.Kexec})
	if err == nil {
		err = install(func(context.Context) io.ReadCloser { return io.NopCloser(r) })
	}
	if err != nil {
		return "", "", err
	}
	s, _, _ := n.upgrades.Snapshot()
	return s.ToVersion, s.Slot, nil
}

// Upgrade is a part of api.Upgrades.
func (n *node) Upgrade(by, location, sum string, o api.UpgradeOptions) error {
	install, err := n.beginUpgrade(context.Background(), upgrade.Options{Stage: o.Stage, Manual: o.ManualCommit, Kexec: o.Kexec, SHA256: sum})
	if err != nil {
		return err
	}
	n.log.Printf("upgrade", "Asked for by %s, from %s.", by, upgrade.Shown(location))
	n.jobs.Start(func() error {
		return install(func(ctx context.Context) io.ReadCloser { // which says what fails
			return upgrade.NewFetch(ctx, fetchClient(), location, n.say("upgrade"))
		})
	})
	n.awaitPublished()
	return nil
}

// publishPatience bounds the wait for the loop, which takes milliseconds.
const publishPatience = 5 * time.Second

// awaitPublished returns when what is known of an upgrade now is in the store: who
// asks for it next must not be told how the upgrade before has ended.
func (n *node) awaitPublished() {
	_, _, version := n.upgrades.Snapshot()
	for end := time.Now().Add(publishPatience); n.upgrades.seen.Load() < version && time.Now().Before(end); {
		time.Sleep(endPoll)
	}
}

// fetchClient does not ask who a server is: the hash says what it has to send.
func fetchClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:       &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		DisableKeepAlives:     true,
		ReadBufferSize:        32 << 10,
	}}
}

// TryStaged is a part of api.Upgrades.
func (n *node) TryStaged(by string, kexec bool) error {
	return n.onSlots(func(m *upgrade.Manager) error {
		n.log.Printf("upgrade", "Asked by %s for what is staged.", by)
		return m.TryStaged(kexec)
	})
}

// CommitUpgrade is a part of api.Upgrades.
func (n *node) CommitUpgrade(by string) error {
	return n.onSlots(func(m *upgrade.Manager) error { return m.Commit(by) })
}

// Rollback is a part of api.Upgrades.
func (n *node) Rollback(by string) error {
	return n.onSlots(func(m *upgrade.Manager) error { return m.Rollback(by) })
}

// onSlots has the manager of the slots do something.
func (n *node) onSlots(do func(*upgrade.Manager) error) error {
	m, err := n.manager()
	if err != nil {
		return err
	}
	return classed(do(m))
}

// stopUpgrade ends an upgrade that is under way: the machine goes down. What it
// has written is worth nothing, and what it writes on would be lost.
func (n *node) stopUpgrade() {
	n.upgrades.mu.Lock()
	cancel, m := n.upgrades.cancel, n.upgrades.Manager
	n.upgrades.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	for end := time.Now().Add(stopPatience); m != nil && m.Busy() && time.Now().Before(end); {
		n.feed()
		time.Sleep(endPoll)
	}
}
