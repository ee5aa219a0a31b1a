// Package upgrade brings a node to another version, tries that, and keeps it or
// goes back.
//
// What boots is the bootloader's business (hal.Bootloader); this package decides
// when. An upgrade is staged into the slot that does not run, tried by a reboot,
// watched until it has been healthy for a while, and committed; or else the old
// slot boots again, by itself or because this package says so.
package upgrade

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"crypto/ed25519"

	"machined/hal"
)

// Drivers are what a Manager works with.
type Drivers struct {
	Bootloader hal.Bootloader
	Files      hal.Files
	// OnState returns where a file of STATE is, "" while STATE is not there.
	OnState func(name string) string
	// Reboot asks for an orderly restart.
	Reboot func(Restart) error
	// Load has the kernel keep that of a slot, for a restart by kexec. It is nil
	// where the kernel cannot.
	Load func(slot string) error
	// Prober finds out whether the firmware makes trials. It is nil where that is
	// known, or not to be found out.
	Prober hal.TrialProber
	// Kick makes whoever calls Step call it now.
	Kick func()
	Say  func(format string, args ...any)
}

// Facts are about the system that runs.
type Facts struct {
	Board   string
	Slot    string // as the firmware's command line says
	Version string
	BootID  string
	// Kexec says that the system was started by the one before it, and not by the
	// firmware.
	Kexec bool
	// Probed says that the firmware has made the trial that Prober asked for.
	Probed bool
}

// Restart is how a node goes down.
type Restart struct {
	Reason Reason
	Detail string
	// Slot is to start next.
	Slot string
	// Argument is handed to the firmware, see hal.Power.
	Argument string
	// Kexec starts the kernel that was loaded.
	Kexec bool
}

// Policy is what the config says of upgrades.
type Policy struct {
	// AutoRollback goes back when a trial is not healthy in time.
	AutoRollback bool
	// Keys are trusted signers; without any, no signature is needed.
	Keys []ed25519.PublicKey
	// MinVersion is the oldest version that is accepted; empty for any.
	MinVersion string
	// Deadline is from the boot to being healthy, Hold how long that has to last.
	Deadline, Hold time.Duration
}

var (
	// ErrBusy says that another upgrade is under way.
	ErrBusy = errors.New("another upgrade is under way")
	// ErrTrial says that the running system is on trial itself.
	ErrTrial = errors.New("the running system is on trial; commit it or roll it back first")
	// ErrNoTrial says that there is nothing to commit.
	ErrNoTrial = errors.New("the running system is not on trial; there is nothing to commit")
	// ErrNoFallback says that there is nothing to go back to.
	ErrNoFallback = errors.New("the other slot holds no whole system to go back to")
	// ErrUnproven says that what there is to go back to has never been healthy.
	ErrUnproven = errors.New("the other slot's system is not proven")
	// ErrNothingStaged says that there is nothing to try.
	ErrNothingStaged = errors.New("nothing is staged; send a bundle")
	// ErrNoKexec says that a kernel cannot start another one.
	ErrNoKexec = errors.New("this node's kernel cannot start another one; leave kexec away")
	// ErrKexec says that the firmware knows nothing of the running system.
	ErrKexec = errors.New("the running system was started by kexec, which proves nothing of how the firmware boots it; restart the node, and have the firmware try what is staged")
	// ErrRefused says that a bundle is damaged, or not for this node.
	ErrRefused = errors.New("the bundle is refused")
)

// Status is what an upgrade is about and how far it is.
type Status struct {
	Phase       Phase
	Message     string
	Slot        string // the one that is written or tried
	FromVersion string
	ToVersion   string
	Bytes       int64 // written so far
	Total       int64 // of the bundle's files; 0 while unknown
}

// Manager runs upgrades, one at a time. Step belongs to one goroutine; the other
// methods may be called from any.
type Manager struct {
	Drivers
	Facts

	// known is closed once Boot has found out what this boot is.
	known chan struct{}

	mu      sync.Mutex
	busy    bool // an upgrade, a commit or a rollback works on the slots
	policy  Policy
	status  Status
	boot    hal.BootState
	record  record
	trial   bool // the running system is not proven yet
	ignored bool // the firmware makes no trials
	version uint64

	// retry is when another attempt to end a trial is due, in nanoseconds since boot.
	retry int64

	// The following are Step's: since when a trial is healthy, in nanoseconds since
	// boot, 0 for not; and that one which is to be committed by hand was so for
	// long enough.
	healthy int64
	inTime  bool

	pause time.Duration // before the slots are read again that could not be
}

// New returns a manager that knows nothing yet: see Boot.
func New(d Drivers, f Facts) *Manager {
	return &Manager{Drivers: d, Facts: f, status: Status{Phase: Idle}, known: make(chan struct{}), pause: time.Second}
}

// SetPolicy applies a config.
func (m *Manager) SetPolicy(p Policy) {
	m.mu.Lock()
	m.policy = p
	m.mu.Unlock()
}

// Snapshot returns what to publish, and a number that moves with it.
func (m *Manager) Snapshot() (Status, hal.BootState, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status, m.boot, m.version
}

// OnTrial reports whether the running system is not proven yet.
func (m *Manager) OnTrial() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trial
}

// Busy reports whether somebody works on the slots.
func (m *Manager) Busy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.busy
}

// bootPatience bounds the wait for Boot, which reads the card.
const bootPatience = time.Minute

// wait returns once Boot has found out what this boot is.
func (m *Manager) wait() error {
	select {
	case <-m.known:
		return nil
	case <-time.After(bootPatience):
		return fmt.Errorf("%w: the node still looks at its slots", ErrBusy)
	}
}

// Ready returns why an upgrade cannot begin now.
func (m *Manager) Ready() error {
	if err := m.wait(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.trial:
		return ErrTrial
	case m.busy:
		return fmt.Errorf("%w: it is %s", ErrBusy, m.status.Phase)
	}
	return nil
}

// Told returns what there is to say of a slot: the firmware's files know nothing
// of a trial that is over.
func (m *Manager) Told(s hal.Slot) (state, lastBoot, reason string) {
	m.mu.Lock()
	r := m.record
	m.mu.Unlock()
	state = s.State.String()
	if s.Name == m.Slot {
		lastBoot = m.BootID
	}
	if s.Name != r.To {
		return state, lastBoot, ""
	}
	if r.Phase == RolledBack && s.State != hal.SlotEmpty {
		state = hal.SlotFailed.String()
	}
	if lastBoot == "" {
		lastBoot = r.Boot
	}
	return state, lastBoot, r.Message
}

// slot returns what is known of a slot.
func slot(b hal.BootState, name string) hal.Slot {
	for _, s := range b.Slots {
		if s.Name == name {
			return s
		}
	}
	return hal.Slot{Name: name}
}

// edit changes what is published.
func (m *Manager) edit(change func()) {
	m.mu.Lock()
	change()
	m.version++
	m.mu.Unlock()
	m.Kick()
}

// look reads the slots anew.
func (m *Manager) look() error {
	b, err := m.Bootloader.State(m.Slot)
	if err != nil {
		return fmt.Errorf("read the slots: %w", err)
	}
	m.edit(func() { m.boot = b })
	return nil
}

// claim makes the caller the only one who works on the slots. It waits for Boot.
func (m *Manager) claim() error {
	if err := m.wait(); err != nil {
		return err
	}
	return m.take()
}

// take is claim without waiting.
func (m *Manager) take() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy {
		return fmt.Errorf("%w: it is %s", ErrBusy, m.status.Phase)
	}
	m.busy = true
	return nil
}

func (m *Manager) release() {
	m.mu.Lock()
	m.busy = false
	m.mu.Unlock()
}

// note writes the record and publishes it.
func (m *Manager) note(r record) error {
	err := m.save(r)
	m.edit(func() { m.show(r) })
	return err
}

// show has the record published. The caller holds mu.
func (m *Manager) show(r record) {
	m.record = r
	m.status.Phase, m.status.Message = r.Phase, r.Message
	m.status.Slot, m.status.FromVersion, m.status.ToVersion = r.To, r.FromVersion, r.ToVersion
}
