package supervise

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// State is where a service is in its life.
type State uint8

const (
	// Waiting for what it depends on, or for the end of a pause.
	Waiting State = iota
	// Preparing what its start needs.
	Preparing
	// Starting: its program is being executed.
	Starting
	// Running: exec(2) has succeeded.
	Running
	// Stopping until its process has ended and was cleaned up after.
	Stopping
	// Finished well, or as it was told.
	Finished
	// Failed for good.
	Failed
	// Skipped: it cannot run as things are.
	Skipped
)

// String returns the state's name in the API.
func (s State) String() string {
	switch s {
	case Waiting:
		return "Waiting"
	case Preparing:
		return "Preparing"
	case Starting:
		return "Starting"
	case Running:
		return "Running"
	case Stopping:
		return "Stopping"
	case Finished:
		return "Finished"
	case Failed:
		return "Failed"
	case Skipped:
		return "Skipped"
	}
	return "Unknown"
}

// Status is what the API shows of a service.
type Status struct {
	ID    string
	State State
	PID   int // of its process, 0 for none
	// Healthy is what those who depend on the service wait for.
	Healthy bool
	Message string
	// Restarts counts the starts after the first, InRow the failures without a
	// stable minute between them.
	Restarts, InRow int
	LastExit        string // how its process ended last
	LastOutput      string // what a process that failed printed last
	OOMKills        uint64 // processes of its cgroup killed for want of memory
	Critical        bool
	// Since is when the state or the health changed last, in nanoseconds since
	// boot.
	Since int64
}

// Change is one change of a service's state or health.
type Change struct {
	At      int64 // nanoseconds since boot
	State   State
	Healthy bool
	Reason  string
}

// keptChanges is how many changes are kept of each service.
const keptChanges = 64

// set moves the service to a state, for a reason.
func (u *unit) set(now int64, state State, reason string) {
	reason = sentence(reason, maxReason)
	if state == Skipped || state == Finished || state == Failed {
		u.troubled = nil
	}
	if u.state == state && u.message == reason {
		return
	}
	if u.state != state {
		u.state, u.since = state, now
	}
	u.message = reason
	u.touch(now)
}

// maxReason and maxIll bound a reason, and the part of it that a probe was
// answered, in bytes: keptChanges of each service are kept.
const maxReason, maxIll = 512, 256

// sentence makes a reason that may hold what others have said fit for the API,
// which takes UTF-8 alone and fails a whole list for one byte, and for terminals.
func sentence(s string, most int) string {
	if len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ' '
		case r == utf8.RuneError || unicode.IsControl(r):
			return '?'
		}
		return r
	}, s)
}

// say changes the message of a service that stays where it is.
func (u *unit) say(now int64, reason string) { u.set(now, u.state, reason) }

// touch publishes what has changed, and keeps it if it is of note.
func (u *unit) touch(now int64) {
	s := u.owner
	s.version++
	healthy := u.met()
	if u.lastKept.State == u.state && u.lastKept.Healthy == healthy && u.state != Waiting {
		return
	}
	if u.lastKept.Healthy != healthy {
		u.since = now
	}
	c := Change{At: now, State: u.state, Healthy: healthy, Reason: u.message}
	if c.State == u.lastKept.State && c.Reason == u.lastKept.Reason && c.Healthy == u.lastKept.Healthy {
		return
	}
	u.lastKept = c
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(u.changes) < keptChanges {
		u.changes = append(u.changes, c)
		return
	}
	u.changes[u.oldest] = c
	u.oldest = (u.oldest + 1) % keptChanges
}

// Has reports whether there is a service of that id. It may be called from any
// goroutine.
func (s *Supervisor) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.known, func(u *unit) bool { return u.ID == id })
}

// Version moves when Status has something new.
func (s *Supervisor) Version() uint64 { return s.version }

// Status returns the services in the order of their start.
func (s *Supervisor) Status() []Status {
	out := make([]Status, 0, len(s.units))
	for _, u := range s.units {
		out = append(out, u.status())
	}
	return out
}

func (u *unit) status() Status {
	pid := 0
	if u.run != nil && u.run.job == nil {
		pid = u.run.pid
	}
	return Status{
		PID: pid, ID: u.ID, State: u.state, Healthy: u.met(), Message: u.message + u.note, Restarts: max(0, u.starts-1), InRow: u.inRow,
		LastExit: u.lastExit, LastOutput: u.lastOutput, OOMKills: u.oomKills, Critical: u.Critical, Since: u.since,
	}
}

// History returns the last changes of a service, the oldest first, nil when
// there is no such service. It may be called from any goroutine.
func (s *Supervisor) History(id string) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.known {
		if u.ID == id {
			return append(slices.Clone(u.changes[u.oldest:]), u.changes[:u.oldest]...)
		}
	}
	return nil
}
