package replay

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"machined/tools/crashtest/scenario"
)

// Image is a boot partition in memory, as large as the partition.
type Image interface {
	// Sector returns a sector of 512 bytes, which the caller may change.
	Sector(number int64) []byte
}

// Cut is a moment at which the power goes, with what is left on the disk.
type Cut struct {
	// Position is how many events of the record came before, and Of how many
	// there are.
	Position, Of int
	// Left says what became of the writes that were not flushed.
	Left string
	// After is the last step that had ended.
	After string
	// Allowed are the slots that may boot: what booted after the last step, and,
	// once the next one has begun, what boots after that.
	Allowed []string
	// Flagged is the slot that has to boot with the flag of a trial; empty
	// where it is not set.
	Flagged string
	// Key is the same for the same image.
	Key [16]byte
}

// Replay goes through the record of a disk.
type Replay struct {
	Events []Event
	// Image is the partition before the first event. It is changed.
	Image Image
	// Subsets is how many random subsets are tried at each position, with Seed.
	Subsets int
	Seed    uint64

	pending [][]sector
	// durable is the sum of all sectors that were changed, and sums those of the
	// sectors that are known, both as of the last flush.
	durable sum
	sums    map[int64]sum
	moment  scenario.Moment
	begun   bool // something was written after the moment
}

// In calls do while the image is that of a cut. It must not be changed.
type In func(do func() error) error

// Each calls judge for every cut, and before at each position. An error of
// either ends it.
func (r *Replay) Each(before func() error, judge func(Cut, In) error) error {
	r.sums = map[int64]sum{}
	for i, e := range r.Events {
		if err := before(); err != nil {
			return err
		}
		switch {
		case e.note != nil:
			r.moment, r.begun = *e.note, false
		case e.flush:
			r.settle()
			continue // there is nothing but what was there before
		default:
			r.pending, r.begun = append(r.pending, e.write), true
		}
		if !r.moment.Judged {
			continue
		}
		if err := r.cuts(i+1, judge); err != nil {
			return err
		}
	}
	return nil
}

// settle has all on the disk.
func (r *Replay) settle() {
	for _, write := range r.pending {
		for _, s := range write {
			r.durable = r.durable.xor(r.sumAt(s.number)).xor(s.sum)
			r.sums[s.number] = s.sum
			copy(r.Image.Sector(s.number), s.data)
		}
	}
	r.pending = nil
}

func (r *Replay) sumAt(number int64) sum {
	s, known := r.sums[number]
	if !known {
		s = sumOf(number, r.Image.Sector(number))
		r.sums[number] = s
	}
	return s
}

// cuts goes through the variants of one position, each image once.
func (r *Replay) cuts(position int, judge func(Cut, In) error) error {
	c := Cut{Position: position, Of: len(r.Events), After: r.moment.After, Flagged: r.moment.Flagged, Allowed: r.allowed(position)}
	seen := map[sum]bool{}
	for _, v := range variants(r.pending, rand.New(rand.NewPCG(r.Seed, uint64(position))), r.Subsets) {
		left := r.left(v)
		key := r.durable
		for number, s := range left {
			key = key.xor(r.sumAt(number)).xor(s.sum)
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		c.Left, c.Key = v.name, key
		if err := judge(c, func(do func() error) error { return r.with(left, do) }); err != nil {
			return err
		}
	}
	return nil
}

// left returns the sectors that are not as of the last flush, by number.
func (r *Replay) left(v variant) map[int64]sector {
	left := map[int64]sector{}
	for w, write := range r.pending {
		for i, s := range write {
			if v.keeps(w, i) {
				left[s.number] = s
			}
		}
	}
	return left
}

// with runs do while the image has some sectors changed.
func (r *Replay) with(left map[int64]sector, do func() error) error {
	old := make(map[int64][]byte, len(left))
	for number, s := range left {
		old[number] = slices.Clone(r.Image.Sector(number))
		copy(r.Image.Sector(number), s.data)
	}
	err := do()
	for number, data := range old {
		copy(r.Image.Sector(number), data)
	}
	return err
}

// allowed returns the slots that may boot at a position.
func (r *Replay) allowed(position int) []string {
	slots := []string{r.moment.Boots}
	if !r.begun {
		return slots
	}
	if r.moment.Fallback != "" {
		return append(slots, r.moment.Fallback)
	}
	for _, e := range r.Events[position:] {
		if e.note != nil {
			if e.note.Boots != slots[0] {
				slots = append(slots, e.note.Boots)
			}
			break
		}
	}
	return slots
}

// Seed returns a seed of its own for each name.
func Seed(seed uint64, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64() ^ seed
}
