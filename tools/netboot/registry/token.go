package registry

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// grant is what a board may show to get its config, and what it was given for
// that.
type grant struct {
	Token  string    `json:"token,omitempty"`
	Issued time.Time `json:"issued,omitzero"`
	// Nonce is whose token it has become: of the node that came first.
	Nonce   string `json:"nonce,omitempty"`
	Session string `json:"session,omitempty"`
}

const (
	// tokenReuse is how long the same token is written into what a board loads:
	// firmware asks for the same file several times in one boot.
	tokenReuse = 10 * time.Minute
	// tokenLife is how long a token may come late: a kernel has to be loaded and
	// started in between. One that a node has shown is that node's for as long as
	// it runs, which may wait for days until somebody accepts it.
	tokenLife = time.Hour
)

var (
	// ErrToken says that a token was never issued, or is too old.
	ErrToken = errors.New("the token is not one of this server, or too old; boot the board again")
	// ErrUsed says that somebody else has shown the token before.
	ErrUsed = errors.New("the token was used by another node before; boot the board again, and look for who listens on the network")
	// ErrHeld says that a person has to accept the board first.
	ErrHeld = errors.New("the board is held until somebody accepts it")
	// ErrIgnored says that the board is not wanted.
	ErrIgnored = errors.New("the board is ignored here")
)

// secret returns random hex digits.
func secret() (string, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}

// Token returns what the board at an address has to show, once: the same one for
// all that it loads in one boot.
func (r *Registry) Token(addr netip.Addr) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, now := r.find(Facts{Address: addr}), r.Now()
	if age := now.Sub(e.grant.Issued); e.grant.Token != "" && e.grant.Nonce == "" && age >= 0 && age < tokenReuse {
		return e.grant.Token, nil
	}
	token, err := secret()
	if err != nil {
		return "", fmt.Errorf("draw a token: %w", err)
	}
	before := e.grant
	e.grant = grant{Token: token, Issued: now, Session: before.Session}
	if err := r.save(); err != nil {
		e.grant = before
		return "", err
	}
	return token, nil
}

// Enrolment is what a node shows.
type Enrolment struct {
	Token, Nonce string
	Facts
	MACs    []string
	Version string
}

// Enroll takes a token from the node that shows it first, and returns the board and
// a session for what it tells later. The same node may come again: its nonce says
// that it is the same.
func (r *Registry) Enroll(n Enrolment) (Board, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.holder(n.Token)
	if err := r.refuses(e, n); err != nil {
		return Board{}, "", err
	}
	before := e.grant
	e.grant.Nonce = n.Nonce
	if e.grant.Session == "" || before.Nonce == "" {
		session, err := secret()
		if err != nil {
			return e.Board, "", fmt.Errorf("draw a session: %w", err)
		}
		e.grant.Session = session
	}
	if e.grant != before {
		if err := r.save(); err != nil {
			e.grant = before
			return e.Board, "", err
		}
	}
	r.learn(e, n)
	r.touched(e)
	switch r.decision(e) {
	case Ignore:
		r.stop(e, Ignored, ErrIgnored)
		return e.Board, "", ErrIgnored
	case Hold:
		if e.Decision == Undecided && r.Known(e.Board) {
			e.Message = "it has a config of its own by the word of its node alone: accept it if that is true"
		}
		r.stop(e, Held, ErrHeld)
		return e.Board, "", ErrHeld
	}
	return e.Board, e.grant.Session, nil
}

// refuses returns why a node gets nothing for its token, nil if it does. e is whose
// token it is, nil for nobody's.
func (r *Registry) refuses(e *entry, n Enrolment) error {
	var why error
	switch {
	case e == nil || n.Nonce == "":
		r.Log.Warn("enrolment refused", "address", n.Address.String(), "error", ErrToken.Error())
		return ErrToken
	case e.grant.Nonce == "" && r.Now().Sub(e.grant.Issued) > tokenLife:
		why = fmt.Errorf("it came %v after it was written: %w", r.Now().Sub(e.grant.Issued).Round(time.Minute), ErrToken)
	case e.grant.Nonce != "" && e.grant.Nonce != n.Nonce:
		why = ErrUsed
	default:
		return nil
	}
	e.Error = Clean(why.Error())
	r.Log.Warn("enrolment refused", "board", e.ID, "address", n.Address.String(), "error", why.Error())
	r.touched(e)
	return why
}

// stop moves a board to a stage that it does not leave by itself. It asks again, and
// is told of once.
func (r *Registry) stop(e *entry, at Stage, why error) {
	if e.Stage != at {
		r.Log.Info("board "+string(at), "board", e.ID, "why", why.Error())
	}
	e.Stage = at
}

// holder returns whose token it is, in a time that says nothing of how much of it
// is right.
func (r *Registry) holder(token string) *entry {
	var found *entry
	for _, e := range r.boards {
		if e.grant.Token != "" && subtle.ConstantTimeCompare([]byte(e.grant.Token), []byte(token)) == 1 {
			found = e
		}
	}
	return found
}

// learn keeps what a node knows better than its firmware. It is the node's word: see
// known.
func (r *Registry) learn(e *entry, n Enrolment) {
	if SameSerial(e.Serial, n.Serial) && len(e.Serial) > len(n.Serial) {
		n.Serial = "" // what is known is the longer form
	}
	for to, s := range map[*string]string{&e.Serial: n.Serial, &e.UUID: n.UUID, &e.Name: n.Name, &e.Version: n.Version} {
		if s = Clean(s); s != "" {
			*to = s
		}
	}
	if e.MAC == "" && len(n.MACs) > 0 {
		e.MAC = Clean(n.MACs[0])
	}
	if n.Address.IsValid() && !n.Address.IsUnspecified() {
		// Another DHCP server may give firmware and kernel an address each.
		e.Address = n.Address.Unmap().String()
		r.byAddr[n.Address.Unmap()] = e.ID
	}
	e.Known = r.known(e)
	e.Last = r.Now()
}

// Given notes which config a node was given.
func (r *Registry) Given(id, config string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.boards[id]; e != nil {
		e.Stage, e.Config, e.Error, e.Message = Config, Clean(config), "", ""
		r.Log.Info("board config", "board", id, "file", e.Config, "version", e.Version)
		r.touched(e)
	}
}

// Status is what a node tells of itself.
type Status struct {
	Phase   string
	Percent int
	Message string
}

// Told notes what a node tells, by its session.
func (r *Registry) Told(session string, s Status) (Board, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.sessionOf(session)
	if e == nil {
		return Board{}, ErrToken
	}
	stage := Stage(s.Phase)
	switch stage {
	case Kernel, Config, API, Ready, Installing, Installed:
	default:
		return e.Board, fmt.Errorf("the phase %q is unknown", Clean(s.Phase))
	}
	moved := e.Stage != stage
	e.Stage, e.Percent, e.Message, e.Last = stage, min(max(s.Percent, 0), 100), Clean(s.Message), r.Now()
	if stage == Installed && !e.Installs {
		e.Installs = true
		if err := r.save(); err != nil {
			e.Installs = false
			return e.Board, err
		}
	}
	if moved {
		r.Log.Info("board "+s.Phase, "board", e.ID, "message", e.Message)
	}
	r.touched(e)
	return e.Board, nil
}

// Session returns the board of a session.
func (r *Registry) Session(session string) (Board, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.sessionOf(session); e != nil {
		return e.Board, nil
	}
	return Board{}, ErrToken
}

func (r *Registry) sessionOf(session string) *entry {
	var found *entry
	for _, e := range r.boards {
		if e.grant.Session != "" && subtle.ConstantTimeCompare([]byte(e.grant.Session), []byte(session)) == 1 {
			found = e
		}
	}
	return found
}
