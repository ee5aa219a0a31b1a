package crash

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"machined/hal/fake"
)

// tally counts what was tried.
type tally struct{ points, trees, bricks int }

// cuts calls each for every prefix of a journal and for variants of what was not
// flushed, for each tree of files once, until it returns false.
func cuts(b *fake.BootFiles, seen map[uint64]bool, count *tally, each func(after *fake.BootFiles, at string) bool) {
	for n := range b.Effects() + 1 {
		for i, fate := range variants(b.Pending(n), uint64(n)) {
			count.points++
			after := b.PowerCut(n, fate)
			if key := fingerprint(after); !seen[key] {
				seen[key] = true
				count.trees++
				if !each(after, fmt.Sprintf("after %d of %d effects, variant %d", n, b.Effects(), i)) {
					return
				}
			}
		}
	}
}

// variants returns what may become of pending effects: every combination of up
// to four, and for more: all, none, each one alone lost, kept or torn, each
// beginning and each end, and some at random.
func variants(pending int, seed uint64) []func(int) fake.BootFate {
	list := []func(int) fake.BootFate{nil}
	if pending <= 4 {
		for f, all := 1, pow3(pending); f < all; f++ {
			list = append(list, func(i int) fake.BootFate { return fake.BootFate(f / pow3(i) % 3) })
		}
		return list
	}
	list = append(list, func(int) fake.BootFate { return fake.Lost })
	choose := func(yes bool, then, otherwise fake.BootFate) fake.BootFate {
		if yes {
			return then
		}
		return otherwise
	}
	for at := range pending {
		list = append(list,
			func(i int) fake.BootFate { return choose(i == at, fake.Lost, fake.Kept) },
			func(i int) fake.BootFate { return choose(i == at, fake.Kept, fake.Lost) },
			func(i int) fake.BootFate { return choose(i == at, fake.Torn, fake.Kept) },
			func(i int) fake.BootFate { return choose(i < at, fake.Kept, fake.Lost) },
			func(i int) fake.BootFate { return choose(i < at, fake.Lost, fake.Kept) },
		)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for range 8 {
		fates := make([]fake.BootFate, pending)
		for i := range fates {
			fates[i] = fake.BootFate(random.IntN(3))
		}
		list = append(list, func(i int) fake.BootFate { return fates[i] })
	}
	return list
}

func pow3(n int) int {
	p := 1
	for range n {
		p *= 3
	}
	return p
}

func fingerprint(b *fake.BootFiles) uint64 {
	h := fnv.New64a()
	for _, p := range b.Paths() {
		data, _ := b.Read(p)
		fmt.Fprintf(h, "%s %d\n%s", p, len(data), data)
	}
	return h.Sum64()
}
