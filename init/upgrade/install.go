package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"machined/hal"
	"machined/images/bundle"
)

// Options say what to do with a bundle once it is on the disk.
type Options struct {
	// Stage leaves it there. Try does the rest.
	Stage bool
	// Manual waits for a commit by hand.
	Manual bool
	// Kexec starts what was written at once, without the firmware, and never
	// commits it.
	Kexec bool
	// SHA256 of the whole bundle in hex; empty for not known.
	SHA256 string
}

// chunk is how much is held of a bundle on its way to the disk, in bytes.
const chunk = 256 << 10

// Begin makes an upgrade the only one under way, and says so in what is published.
// The caller has to call what it returns, once.
func (m *Manager) Begin(o Options) (install func(context.Context, io.Reader) error, err error) {
	if err := m.Ready(); err != nil {
		return nil, err
	}
	if o.Kexec && m.Load == nil {
		return nil, ErrNoKexec
	}
	if err := m.claim(); err != nil {
		return nil, err
	}
	m.edit(func() {
		m.status = Status{Phase: Receiving, Slot: hal.OtherSlot(m.Slot), FromVersion: m.versionOf(m.boot)}
	})
	return func(ctx context.Context, r io.Reader) error {
		defer m.release()
		return m.install(ctx, r, o)
	}, nil
}

// install reads a bundle from r into the slot that does not run, and has it tried
// by a restart. It returns when the restart is asked for, or with an error, after
// which the running system is what boots, as before. It uses the same memory
// whatever the size of the bundle.
func (m *Manager) install(ctx context.Context, r io.Reader, o Options) error {
	rec, err := m.stage(ctx, r, o)
	if err == nil && !o.Stage {
		err = m.try(rec)
	}
	if err != nil {
		err = fmt.Errorf("upgrade slot %s: %w", hal.OtherSlot(m.Slot), refused(err))
		m.edit(func() { m.status.Phase, m.status.Message = Failed, err.Error() })
		m.Say("%v.", err)
	}
	if lookErr := m.look(); err == nil {
		err = lookErr
	}
	return err
}

// stage brings a bundle to the disk.
func (m *Manager) stage(ctx context.Context, r io.Reader, o Options) (record, error) {
	sum := sha256.New()
	r = contextReader{ctx, r}
	if o.SHA256 != "" {
		r = io.TeeReader(r, sum)
	}
	b, err := bundle.NewReader(r)
	if err != nil {
		return record{}, err
	}
	if err := m.accept(b); err != nil {
		return record{}, err
	}
	content, total := b.Content(), b.Manifest().Size()
	m.edit(func() { m.status.ToVersion, m.status.Total = content.Version, total })
	m.Say("Writing version %s to slot %s, %d MiB.", content.Version, hal.OtherSlot(m.Slot), total>>20)
	w, err := m.Bootloader.Stage(m.Slot, content)
	if err != nil {
		return record{}, err
	}
	rec := record{Phase: Staged, From: m.Slot, To: hal.OtherSlot(m.Slot), FromVersion: m.from(), ToVersion: content.Version, Manual: o.Manual, Kexec: o.Kexec}
	err = m.write(b, w)
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && o.SHA256 != "" && !strings.EqualFold(got, o.SHA256) {
		err = fmt.Errorf("%w: its SHA-256 is %s, and not %s as was said", ErrRefused, got, o.SHA256)
	}
	if err == nil {
		m.edit(func() { m.status.Phase = Verifying })
		err = w.Finish()
	}
	if err != nil {
		return record{}, errors.Join(err, w.Abort())
	}
	return rec, m.note(rec)
}

// accept checks whether a bundle is for this node, before anything is touched.
func (m *Manager) accept(b *bundle.Reader) error {
	m.mu.Lock()
	policy := m.policy
	m.mu.Unlock()
	man := b.Manifest()
	if man.Board != m.Board {
		return fmt.Errorf("%w: it is for the board %s, and this is %s", ErrRefused, man.Board, m.Board)
	}
	if err := b.Verify(policy.Keys); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if order, ok := bundle.Compare(man.Version, policy.MinVersion); policy.MinVersion != "" && (!ok || order < 0) {
		return fmt.Errorf("%w: its version %s is not known to be %s or newer, which is what this node accepts (machine.upgrade.min_version)",
			ErrRefused, man.Version, policy.MinVersion)
	}
	if order, ok := bundle.Compare(m.Facts.Version, man.MinVersion); man.MinVersion != "" && (!ok || order < 0) {
		return fmt.Errorf("%w: it is for nodes with %s or newer, and this one runs %s; install a version in between first",
			ErrRefused, man.MinVersion, m.Facts.Version)
	}
	return nil
}

// from is the version that runs.
func (m *Manager) from() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.versionOf(m.boot)
}

// write copies the files of a bundle into a slot.
func (m *Manager) write(b *bundle.Reader, w hal.SlotWriter) error {
	for {
		f, err := b.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out, err := w.Create(f.Path)
		if err != nil {
			return err
		}
		err = copyAhead(counted{out, m}, b)
		closed := out.Close()
		if err == nil {
			err = closed // that of a file that is cut says nothing new
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
}

// copyAhead copies r to w, and reads while it writes: a card and a network, or the
// hash, take their time at once.
func copyAhead(w io.Writer, r io.Reader) error {
	type piece struct {
		data []byte
		err  error
	}
	full, empty := make(chan piece, 2), make(chan []byte, 2)
	for range cap(empty) {
		empty <- make([]byte, chunk)
	}
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var buf []byte
			select {
			case buf = <-empty:
			case <-stop:
				return
			}
			n, err := io.ReadFull(r, buf)
			full <- piece{buf[:n], err}
			if err != nil {
				return
			}
		}
	}()
	var err error
	for err == nil {
		p := <-full
		if _, err = w.Write(p.data); err == nil {
			err = p.err
		}
		empty <- p.data[:cap(p.data)]
	}
	close(stop)
	// From here on r is the caller's again.
	<-ended
	if err == io.EOF || err == io.ErrUnexpectedEOF { // of the file, not of the bundle
		return nil
	}
	return err
}

// try has the next boot try what is staged.
func (m *Manager) try(r record) error {
	staged := r
	r.Phase, r.Message = Trying, waiting
	// Before the firmware is told: a trial must not meet a record that knows
	// nothing of it.
	if err := m.note(r); err != nil {
		return err
	}
	restart, err := Restart{Reason: ByUpgrade, Detail: "to version " + r.ToVersion, Slot: r.To, Kexec: r.Kexec}, error(nil)
	if r.Kexec {
		err = m.Load(r.To)
	} else {
		restart.Argument, err = m.Bootloader.Try(m.Slot, r.To)
	}
	if err == nil {
		err = m.Reboot(restart)
		if err != nil && !r.Kexec {
			err = errors.Join(err, m.Bootloader.Abandon(m.Slot, r.To))
		}
	}
	if err != nil {
		return errors.Join(err, m.note(staged))
	}
	return nil
}

// TryStaged tries what an upgrade has staged earlier, by kexec or by the firmware.
func (m *Manager) TryStaged(kexec bool) error {
	if kexec && m.Load == nil {
		return ErrNoKexec
	}
	if err := m.claim(); err != nil {
		return err
	}
	defer m.release()
	m.mu.Lock()
	r := m.record
	m.mu.Unlock()
	if r.Phase != Staged || r.From != m.Slot {
		return ErrNothingStaged
	}
	r.Kexec, r.Healthy, r.Attempts, r.Boot = kexec, false, 0, ""
	return m.try(r)
}

// counted counts what is written.
type counted struct {
	io.Writer
	m *Manager
}

// progressStep is how many bytes make a difference to who watches.
const progressStep = 1 << 20

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.m.mu.Lock()
	before := c.m.status.Bytes
	c.m.status.Bytes += int64(n)
	moved := before/progressStep != c.m.status.Bytes/progressStep
	if moved {
		c.m.version++
	}
	c.m.mu.Unlock()
	if moved {
		c.m.Kick()
	}
	return n, err
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

// refused marks the errors that another try with the same bundle does not mend.
func refused(err error) error {
	for _, target := range []error{
		bundle.ErrNotBundle, bundle.ErrFormat, bundle.ErrTruncated, bundle.ErrDamaged, bundle.ErrTrailing, bundle.ErrManifest, bundle.ErrTooLarge, hal.ErrInvalid,
	} {
		if errors.Is(err, target) && !errors.Is(err, ErrRefused) {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return err
}
