// Package registry knows the boards that a netboot server has seen: what each is,
// how far it has come, what was decided about it, and the tokens by which a node
// proves that it was booted by this server. What has to outlast the server is kept
// in one file.
package registry

import (
	"net/netip"
	"strings"
	"time"
)

// Stage is how far a board has come.
type Stage string

// The stages of a boot, in their order.
const (
	Seen       Stage = "seen"       // it has asked for something
	Offered    Stage = "dhcp"       // it was told what to load
	Loading    Stage = "loading"    // by TFTP or HTTP
	Kernel     Stage = "kernel"     // all is loaded
	Held       Stage = "held"       // its node runs, and waits to be accepted
	Config     Stage = "config"     // its node has got config and identity
	API        Stage = "api"        // its API answers
	Ready      Stage = "ready"      // so do its services
	Installing Stage = "installing" // it writes itself to a disk
	Installed  Stage = "installed"  // it boots from that disk
	Ignored    Stage = "ignored"    // it is not answered
)

// Decision is what a person, or the policy for boards that nobody knows, wants.
type Decision string

const (
	Undecided Decision = ""
	Accept    Decision = "accept"
	Hold      Decision = "hold"
	Ignore    Decision = "ignore"
)

// ParseDecision reads a decision as people write it.
func ParseDecision(s string) (Decision, bool) {
	switch d := Decision(s); d {
	case Accept, Hold, Ignore:
		return d, true
	}
	return Undecided, false
}

// Board is what is known of a board. Strings that the board itself has sent are
// clean: see Clean.
type Board struct {
	ID      string `json:"id"` // its MAC, or its address while that is not known
	MAC     string `json:"mac,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	Serial  string `json:"serial,omitempty"`
	Name    string `json:"board,omitempty"` // of the table of boards
	Address string `json:"address,omitempty"`
	Client  string `json:"client,omitempty"` // the firmware, as DHCP tells

	Stage    Stage    `json:"stage"`
	Decision Decision `json:"decision,omitempty"`
	Known    bool     `json:"known"` // a config of its own is there
	Installs bool     `json:"installed,omitempty"`

	File    string `json:"file,omitempty"` // that is loaded
	Bytes   int64  `json:"bytes,omitempty"`
	Total   int64  `json:"total,omitempty"`
	Percent int    `json:"percent"`
	Speed   int64  `json:"bytes_per_second,omitempty"`

	Version string `json:"version,omitempty"` // of machined
	Message string `json:"message,omitempty"`
	Error   string `json:"last_error,omitempty"`
	Console string `json:"console,omitempty"` // where its console can be read
	Config  string `json:"config,omitempty"`  // file that it was given

	First time.Time `json:"first_seen"`
	Last  time.Time `json:"last_seen"`
	Boots int       `json:"boots"`

	// version moves with each change, over all boards.
	version uint64
}

// maxText bounds what is kept of what a board says, in bytes.
const maxText = 160

// Clean makes what a board says fit for a log, a page and a template: printable
// ASCII of at most 160 bytes.
func Clean(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}

// Name makes what a board says fit for a file's name and a value in YAML: letters,
// digits, dots, dashes and underscores. Colons are dashes.
func Name(s string) string {
	return strings.TrimLeft(strings.Map(func(r rune) rune {
		switch {
		case r == ':':
			return '-'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, Clean(s)), ".")
}

// key is how boards are told apart: by their MAC where that is known.
func key(mac string, addr netip.Addr) string {
	if mac != "" {
		return Name(mac)
	}
	return Name(addr.Unmap().String())
}
