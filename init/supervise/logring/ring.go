// Package logring keeps the last lines of each service in memory: a ring of
// bytes a service, which neither grows nor allocates as lines come, and which
// any number of readers follow, each from a position of its own.
package logring

import (
	"encoding/binary"
	"sync"
)

// Stream is where a line was written.
type Stream uint8

const (
	Stdout Stream = iota
	Stderr
)

// String returns the stream's name.
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// MaxLine is the most that an entry holds, in bytes; the rest of a longer line
// is the next entry.
const MaxLine = 4096

// Entry is a line without its end.
type Entry struct {
	Time   int64 // Unix time in nanoseconds, as the node's clock had it
	Stream Stream
	Text   string
}

// place is where an entry is.
type place struct {
	seq uint64 // number of the entry, from 0
	at  uint64 // of its first byte, counted over all bytes ever written
}

// header of an entry: the time, the stream, the length of the text.
const header = 8 + 1 + 2

// MinBytes is the least that a ring has: a line fits.
const MinBytes = header + MaxLine

// Ring holds the last entries of a service.
type Ring struct {
	mu     sync.Mutex
	buf    []byte
	oldest place // what is kept begins here
	next   place // and ends here
	read   place // where the last reader stopped, most likely to go on from there
	moved  chan struct{}
	set    *Set // that is told of each entry; nil for none
}

// New returns an empty ring of that many bytes, MinBytes at least.
func New(bytes int) *Ring { return &Ring{buf: make([]byte, max(bytes, MinBytes))} }

// Append adds a line. What is longer than MaxLine is cut off.
func (r *Ring) Append(time int64, stream Stream, text []byte) {
	text = text[:min(len(text), MaxLine)]
	var head [header]byte
	binary.LittleEndian.PutUint64(head[:], uint64(time))
	head[8] = byte(stream)
	binary.LittleEndian.PutUint16(head[9:], uint16(len(text)))
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(header + len(text))
	for r.next.at-r.oldest.at+size > uint64(len(r.buf)) {
		r.drop()
	}
	r.put(r.next.at, head[:])
	r.put(r.next.at+header, text)
	r.next.seq++
	r.next.at += size
	if r.moved != nil {
		close(r.moved)
		r.moved = nil
	}
	if r.set != nil {
		r.set.tell()
	}
}

// drop gives up the oldest entry.
func (r *Ring) drop() {
	_, size := r.head(r.oldest.at)
	r.oldest.seq++
	r.oldest.at += size
}

// put writes at a place of the endless tape that the ring is a window of.
func (r *Ring) put(at uint64, data []byte) {
	i := int(at % uint64(len(r.buf)))
	n := copy(r.buf[i:], data)
	copy(r.buf, data[n:])
}

func (r *Ring) get(at uint64, out []byte) {
	i := int(at % uint64(len(r.buf)))
	n := copy(out, r.buf[i:])
	copy(out[n:], r.buf)
}

// head reads the header of the entry at a place, and the size of all of it.
func (r *Ring) head(at uint64) (head [header]byte, size uint64) {
	r.get(at, head[:])
	return head, header + uint64(binary.LittleEndian.Uint16(head[9:]))
}

// entry reads the entry at c and returns the place of the next one.
func (r *Ring) entry(c place) (Entry, place) {
	head, size := r.head(c.at)
	text := make([]byte, size-header)
	r.get(c.at+header, text)
	e := Entry{Time: int64(binary.LittleEndian.Uint64(head[:])), Stream: Stream(head[8]), Text: string(text)}
	return e, place{seq: c.seq + 1, at: c.at + size}
}

// Read returns entries from a position on, and the position after them.
// Positions count the entries from the first one ever written, kept or not: a
// reader begins with 0 for all, or with Tail's, and goes on with next. Entries
// come to about limit bytes together, and to one at least if there is one. lost
// counts those that were overwritten before the first. It does not wait.
func (r *Ring) Read(from uint64, limit int) (entries []Entry, next, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from < r.oldest.seq {
		lost = r.oldest.seq - from
	}
	c := r.find(from)
	for c.seq < r.next.seq && limit > 0 {
		var e Entry
		e, c = r.entry(c)
		limit -= header + len(e.Text)
		entries = append(entries, e)
	}
	r.read = c
	return entries, c.seq, lost
}

// find returns the place of an entry, or the nearest one that there is.
func (r *Ring) find(seq uint64) place {
	if seq >= r.next.seq {
		return r.next
	}
	c := r.oldest
	if r.read.seq >= c.seq && r.read.seq <= seq {
		c = r.read
	}
	for c.seq < seq {
		_, size := r.head(c.at)
		c.seq++
		c.at += size
	}
	return c
}

// Tail returns the position of the last n entries: 0 for what is yet to come, a
// negative n for all that are kept.
func (r *Ring) Tail(n int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.next.seq - r.oldest.seq
	if n < 0 || uint64(n) > kept {
		return r.oldest.seq
	}
	return r.next.seq - uint64(n)
}

// Moved returns a channel that is closed at the next entry. A reader that takes
// it before it reads misses nothing.
func (r *Ring) Moved() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.moved == nil {
		r.moved = make(chan struct{})
	}
	return r.moved
}

// Stats are the accounts of a ring.
type Stats struct {
	Bytes   int    // that the ring has room for
	Entries uint64 // written so far
	Dropped uint64 // of these, overwritten
}

// Stats returns the accounts.
func (r *Ring) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Bytes: len(r.buf), Entries: r.next.seq, Dropped: r.oldest.seq}
}

// resize keeps what fits of the newest entries.
func (r *Ring) resize(bytes int) {
	bytes = max(bytes, MinBytes)
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes == len(r.buf) {
		return
	}
	for r.next.at-r.oldest.at > uint64(bytes) {
		r.drop()
	}
	old := make([]byte, r.next.at-r.oldest.at)
	r.get(r.oldest.at, old)
	r.buf = make([]byte, bytes)
	r.put(r.oldest.at, old)
}
