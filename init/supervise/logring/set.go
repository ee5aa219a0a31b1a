package logring

import (
	"slices"
	"sync"
)

const (
	// DefaultBytes is the size of a ring unless its service asks for another.
	DefaultBytes = 64 << 10
	// DefaultTotal bounds all rings of a node together.
	DefaultTotal = 1 << 20
)

// Set holds the rings of a node. They shrink in proportion where they would need
// more than the total together.
type Set struct {
	mu    sync.Mutex
	total int
	rings []named

	waiting sync.Mutex // of moved; taken last
	moved   chan struct{}
}

type named struct {
	id     string
	ring   *Ring
	wanted int
}

// NewSet returns an empty set with a bound in bytes for all rings. Each has
// MinBytes even so.
func NewSet(total int) *Set { return &Set{total: total} }

// Ring returns the ring of a service, which it makes when there is none, and
// which keeps its lines for as long as the node runs. bytes is the size that it
// is to have; 0 is DefaultBytes for a new one, and no change for another.
func (s *Set) Ring(id string, bytes int) *Ring {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.rings, func(n named) bool { return n.id == id })
	if i < 0 {
		i = len(s.rings)
		s.rings = append(s.rings, named{id: id, ring: &Ring{buf: make([]byte, MinBytes), set: s}})
		if bytes == 0 {
			bytes = DefaultBytes
		}
	}
	if bytes != 0 && bytes != s.rings[i].wanted {
		s.rings[i].wanted = bytes
		s.share()
	}
	return s.rings[i].ring
}

// share gives each ring what it wants, or its part of the total.
func (s *Set) share() {
	sum := 0
	for _, n := range s.rings {
		sum += n.wanted
	}
	for _, n := range s.rings {
		if sum > s.total {
			n.ring.resize(int(int64(n.wanted) * int64(s.total) / int64(sum)))
		} else {
			n.ring.resize(n.wanted)
		}
	}
}

// Find returns the ring of a service, nil when there is none.
func (s *Set) Find(id string) *Ring {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.rings {
		if n.id == id {
			return n.ring
		}
	}
	return nil
}

// Trim forgets the lines of services that are not there any more, of those that
// were there first first, until that many such services are left. Readers keep
// what they hold.
func (s *Set) Trim(left int, there func(id string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := 0
	for _, n := range s.rings {
		if !there(n.id) {
			gone++
		}
	}
	s.rings = slices.DeleteFunc(s.rings, func(n named) bool {
		if gone <= left || there(n.id) {
			return false
		}
		gone--
		return true
	})
	s.share()
}

// IDs returns the services that have a ring, in the order of their first line.
func (s *Set) IDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, n := range s.rings {
		out = append(out, n.id)
	}
	return out
}

// Moved returns a channel that is closed at the next entry of any ring. A reader
// that takes it before it reads misses nothing.
func (s *Set) Moved() <-chan struct{} {
	s.waiting.Lock()
	defer s.waiting.Unlock()
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

func (s *Set) tell() {
	s.waiting.Lock()
	defer s.waiting.Unlock()
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}
