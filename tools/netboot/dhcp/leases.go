package dhcp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Lease is an address that a board has.
type Lease struct {
	MAC      MAC        `json:"mac"`
	Address  netip.Addr `json:"address"`
	Expires  time.Time  `json:"expires"`
	Hostname string     `json:"hostname,omitempty"`
	// Declined is an address that a board found in use by somebody else. It is
	// given to none until it expires; MAC is who said so.
	Declined bool `json:"declined,omitempty"`
}

// offerTime is how long an address is kept for a board that has not asked for it.
const offerTime = time.Minute

var errExhausted = errors.New("no address is free")

// book has the leases. Boards are known by their MAC alone: the client identifier
// of option 61 differs between firmware, iPXE and Linux on one board, and each
// would get an address of its own.
type book struct {
	c         *Config
	byMAC     map[MAC]Lease
	byAddress map[netip.Addr]Lease // declined ones too
	statics   map[MAC]Static
	reserved  map[netip.Addr]MAC
}

// newBook takes over the leases of before, as far as the settings still have them.
func newBook(c *Config, before []Lease) *book {
	b := &book{c, map[MAC]Lease{}, map[netip.Addr]Lease{}, map[MAC]Static{}, map[netip.Addr]MAC{}}
	for _, s := range c.Statics {
		b.statics[s.MAC] = s
		b.reserved[s.Address] = s.MAC
	}
	for _, l := range before {
		if l.Declined && c.inPool(l.Address) {
			b.byAddress[l.Address] = l
		} else if !l.Declined && b.may(l.MAC, l.Address) {
			b.put(l)
		}
	}
	return b
}

// may is true for an address that the settings allow a board.
func (b *book) may(m MAC, a netip.Addr) bool {
	if s, ok := b.statics[m]; ok {
		return s.Address == a
	}
	_, others := b.reserved[a]
	return b.c.inPool(a) && !others
}

func (b *book) put(l Lease) {
	if old, ok := b.byMAC[l.MAC]; ok {
		delete(b.byAddress, old.Address)
	}
	if other, ok := b.byAddress[l.Address]; ok && !other.Declined {
		delete(b.byMAC, other.MAC)
	}
	b.byMAC[l.MAC], b.byAddress[l.Address] = l, l
}

// free is true for an address that a board can have now.
func (b *book) free(m MAC, a netip.Addr, now time.Time) bool {
	if !b.may(m, a) {
		return false
	}
	l, taken := b.byAddress[a]
	return !taken || !l.Declined && l.MAC == m || !now.Before(l.Expires)
}

// find chooses an address: the fixed one, the one of before, the one that the
// board asks for, one that nobody had, or the one that is unused the longest.
func (b *book) find(m MAC, asked netip.Addr, now time.Time) (netip.Addr, error) {
	if s, ok := b.statics[m]; ok {
		if !b.free(m, s.Address, now) {
			return netip.Addr{}, fmt.Errorf("the static lease %v is in use by somebody else: %w", s.Address, errExhausted)
		}
		return s.Address, nil
	}
	for _, a := range []netip.Addr{b.byMAC[m].Address, asked} {
		if b.free(m, a, now) {
			return a, nil
		}
	}
	var expired []Lease
	for n := number(b.c.PoolFirst); n <= number(b.c.PoolLast); n++ {
		a := address(n)
		if l, had := b.byAddress[a]; !had && b.may(m, a) {
			return a, nil
		} else if had && b.free(m, a, now) {
			expired = append(expired, l)
		}
	}
	if len(expired) == 0 {
		return netip.Addr{}, fmt.Errorf("%w in %v to %v; make the pool larger or the lease time shorter", errExhausted, b.c.PoolFirst, b.c.PoolLast)
	}
	return slices.MinFunc(expired, func(x, y Lease) int { return x.Expires.Compare(y.Expires) }).Address, nil
}

// decline takes an address away from a board that found it in use.
func (b *book) decline(m MAC, a netip.Addr, until time.Time) bool {
	if l, ok := b.byMAC[m]; !ok || l.Address != a {
		return false
	}
	delete(b.byMAC, m)
	b.byAddress[a] = Lease{MAC: m, Address: a, Expires: until, Declined: true}
	return true
}

// release ends a lease. It stays in the book, so that the board gets it again as
// long as there are others for all.
func (b *book) release(m MAC, a netip.Addr, now time.Time) bool {
	l, ok := b.byMAC[m]
	if !ok || l.Address != a {
		return false
	}
	l.Expires = now
	b.put(l)
	return true
}

// list has all leases by address, expired ones too.
func (b *book) list() []Lease {
	all := make([]Lease, 0, len(b.byAddress))
	for _, l := range b.byAddress {
		all = append(all, l)
	}
	slices.SortFunc(all, func(x, y Lease) int {
		return cmp.Or(x.Address.Compare(y.Address), slices.Compare(x.MAC[:], y.MAC[:]))
	})
	return all
}
