package registry

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// MaxBoards bounds the boards that are remembered: anybody on the network can
	// make one up.
	MaxBoards = 1024
	// speedSpan is how long a transfer is measured before its speed is shown.
	speedSpan = time.Second
)

// ErrUnknown says that there is no such board.
var ErrUnknown = errors.New("no such board has been seen")

// Options are what a registry works with.
type Options struct {
	// File keeps what has to outlast the server; empty for nothing.
	File string
	// Unknown is what happens to boards that have no config of their own and that
	// nobody has decided about: Accept boots them with the default.
	Unknown Decision
	// Known reports whether a board has a config of its own. It may be nil.
	Known func(Board) bool
	// Consoles are where the consoles of boards can be read, by the boards' IDs, MACs
	// or serial numbers as Name has them.
	Consoles map[string]string
	// Neighbour returns the MAC of an address on the link, "" for not known. It may
	// be nil.
	Neighbour func(netip.Addr) string
	Now       func() time.Time
	Log       *slog.Logger
}

// Registry is safe for use from several goroutines.
type Registry struct {
	Options

	mu      sync.Mutex
	boards  map[string]*entry
	byAddr  map[netip.Addr]string // id of who has the address
	version uint64
	changed chan struct{} // closed with the next change
}

// entry is a board with what nobody else is to see.
type entry struct {
	Board
	grant    grant
	firmware firmware
	began    time.Time // of the transfer that is under way
	beganAt  int64     // bytes
}

// New returns a registry with what the file has.
func New(o Options) (*Registry, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Known == nil {
		o.Known = func(Board) bool { return false }
	}
	r := &Registry{Options: o, boards: make(map[string]*entry), byAddr: make(map[netip.Addr]string), changed: make(chan struct{})}
	if err := r.load(); err != nil {
		return nil, err
	}
	return r, nil
}

// Facts are what is known of a board from one message.
type Facts struct {
	MAC, UUID, Serial string
	Name              string
	Client            string
	Address           netip.Addr
}

// id completes the facts by what the link knows, and returns the board's name.
func (r *Registry) id(f *Facts) string {
	if f.MAC == "" && r.Neighbour != nil {
		f.MAC = r.Neighbour(f.Address.Unmap())
	}
	if f.MAC == "" {
		if known, ok := r.byAddr[f.Address.Unmap()]; ok {
			return known
		}
	}
	return key(f.MAC, f.Address)
}

// find returns the board of the facts and makes it if need be.
func (r *Registry) find(f Facts) *entry {
	id := r.id(&f)
	e := r.boards[id]
	if e == nil {
		r.makeRoom()
		e = &entry{Board: Board{ID: id, Stage: Seen, First: r.Now()}}
		r.boards[id] = e
		r.Log.Info("board seen", "board", id)
	}
	set := func(to *string, s string) {
		if s = Clean(s); s != "" {
			*to = s
		}
	}
	set(&e.MAC, f.MAC)
	set(&e.UUID, f.UUID)
	set(&e.firmware.UUID, f.UUID)
	set(&e.firmware.Serial, f.Serial)
	if !SameSerial(e.Serial, f.Serial) { // else its node has told the longer form
		set(&e.Serial, f.Serial)
	}
	set(&e.Name, f.Name)
	set(&e.Client, f.Client)
	if f.Address.IsValid() && !f.Address.IsUnspecified() {
		e.Address = f.Address.Unmap().String()
		r.byAddr[f.Address.Unmap()] = id
	}
	e.Known = r.known(e)
	e.Console = r.console(e.Board)
	e.Last = r.Now()
	return e
}

// makeRoom forgets the board that was not seen for longest, of those that nobody
// has decided about.
func (r *Registry) makeRoom() {
	if len(r.boards) < MaxBoards {
		return
	}
	var oldest *entry
	for _, e := range r.boards {
		if e.Decision == Undecided && (oldest == nil || e.Last.Before(oldest.Last)) {
			oldest = e
		}
	}
	if oldest == nil { // all were decided about, by a person
		for _, e := range r.boards {
			if oldest == nil || e.Last.Before(oldest.Last) {
				oldest = e
			}
		}
	}
	delete(r.boards, oldest.ID)
	for addr, id := range r.byAddr {
		if id == oldest.ID {
			delete(r.byAddr, addr)
		}
	}
}

// touched publishes a change. The caller holds mu.
func (r *Registry) touched(e *entry) {
	r.version++
	e.version = r.version
	close(r.changed)
	r.changed = make(chan struct{})
}

// decision is what holds for a board now.
func (r *Registry) decision(e *entry) Decision {
	switch {
	case e.Decision != Undecided:
		return e.Decision
	case e.Known || r.Unknown == Undecided:
		return Accept
	}
	return r.Unknown
}

// Ask notes that a board wants to boot, and returns whether it is answered.
func (r *Registry) Ask(f Facts) (Board, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(f)
	answer := r.decision(e) != Ignore
	switch {
	case !answer:
		e.Stage = Ignored
	case e.Installs:
		// The server lets it boot from its disk.
		answer, e.Stage = false, Installed
	default:
		if e.Stage != Offered && e.Stage != Loading && e.Stage != Seen {
			e.Boots++
		}
		e.Stage, e.Percent, e.Error, e.Message = Offered, 0, "", ""
	}
	r.touched(e)
	return e.Board, answer
}

// Answers reports whether who is at an address gets files: all but those who are
// ignored.
func (r *Registry) Answers(addr netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := Facts{Address: addr}
	e := r.boards[r.id(&f)]
	if e == nil { // it may load, and is a board from then on
		e = &entry{Board: Board{ID: key(f.MAC, addr), MAC: f.MAC}}
		e.Known = r.known(e)
	}
	return r.decision(e) != Ignore
}

// Address notes the address that a board has been given. Who has never asked to
// boot is no board.
func (r *Registry) Address(mac string, addr netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.boards[key(mac, addr)] != nil {
		r.touched(r.find(Facts{MAC: mac, Address: addr}))
	}
}

// Transfer is a file on its way to a board.
type Transfer struct {
	Address      netip.Addr
	Serial       string // that the board asked by, "" for none
	File         string
	Bytes, Total int64
	Done         bool
	Err          string // why it ended; empty while all is well
}

// Transferred notes how far a transfer is.
func (r *Registry) Transferred(t Transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := Facts{Address: t.Address}
	if t.Err != "" && r.boards[r.id(&f)] == nil {
		return // who has got nothing is no board: a browser, or a scanner
	}
	f.Serial = t.Serial
	e, now := r.find(f), r.Now()
	file := Clean(t.File)
	if e.File != file || t.Bytes < e.Bytes || e.began.IsZero() {
		e.began, e.beganAt = now, t.Bytes
	}
	e.File, e.Bytes, e.Total = file, t.Bytes, t.Total
	if t.Total > 0 {
		e.Percent = int(100 * t.Bytes / t.Total)
	}
	if span := now.Sub(e.began); span >= speedSpan || t.Done && span > 0 {
		e.Speed = int64(float64(t.Bytes-e.beganAt) / span.Seconds())
	}
	switch {
	case t.Err != "":
		e.Error = Clean(file + ": " + t.Err)
	case e.Stage == Seen || e.Stage == Offered || e.Stage == Loading || e.Stage == Kernel:
		e.Stage = Loading
	}
	if t.Done {
		e.began = time.Time{}
	}
	r.touched(e)
}

// Loaded notes that a board has all that it boots.
func (r *Registry) Loaded(addr netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(Facts{Address: addr})
	if e.Stage != Kernel {
		r.Log.Info("board has all that it boots", "board", e.ID, "file", e.File)
	}
	e.Stage, e.Percent = Kernel, 100
	r.touched(e)
}

// Fail notes what went wrong with a board.
func (r *Registry) Fail(id, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.boards[id]; e != nil {
		if text := Clean(message); e.Error != text { // it may ask again and again
			e.Error = text
			r.Log.Warn("board fails", "board", id, "error", message)
		}
		r.touched(e)
	}
}

// Decide keeps what a person has decided about a board.
func (r *Registry) Decide(id string, d Decision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.boards[id]
	if e == nil {
		return fmt.Errorf("%s board %q: %w", d, Clean(id), ErrUnknown)
	}
	before := e.Board
	e.Decision = d
	if d == Accept {
		e.Installs = false // it is wanted again
	}
	if err := r.save(); err != nil {
		e.Decision, e.Installs = before.Decision, before.Installs
		return err
	}
	r.Log.Info("board decided", "board", id, "decision", string(d))
	r.touched(e)
	return nil
}

// Boards returns the boards that have changed after a version, in the order of
// their IDs, the version of the answer, and a channel that is closed with the next
// change.
func (r *Registry) Boards(after uint64) ([]Board, uint64, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Board
	for _, e := range r.boards {
		if e.version > after {
			list = append(list, e.Board)
		}
	}
	slices.SortFunc(list, func(a, b Board) int { return cmp.Compare(a.ID, b.ID) })
	return list, r.version, r.changed
}

// At returns the board that has an address, by the link where that tells: with
// another's DHCP server nothing else does, and the address may have been another
// board's before.
func (r *Registry) At(addr netip.Addr) (Board, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := Facts{Address: addr}
	e := r.boards[r.id(&f)]
	if e == nil {
		return Board{}, false
	}
	return e.Board, true
}
