package replay

import (
	"fmt"
	"math/rand/v2"
)

// variant is what a cut leaves of the writes that were not flushed.
type variant struct {
	name string
	// keeps reports whether a sector of a write got to the disk.
	keeps func(write, sector int) bool
}

// tears is how many sector boundaries of a write are tried.
const tears = 6

// variants returns what may become of pending writes, given the number of
// sectors of each. What is left by losing only the last few is found at earlier
// cuts.
func variants(pending [][]sector, random *rand.Rand, subsets int) []variant {
	count := len(pending)
	list := []variant{
		{"nothing lost", func(int, int) bool { return true }},
		{"all unflushed writes lost", func(int, int) bool { return false }},
	}
	for n := range count {
		list = append(list,
			variant{fmt.Sprintf("unflushed write %d of %d lost", n+1, count), func(w, _ int) bool { return w != n }},
			variant{fmt.Sprintf("all unflushed writes but %d of %d lost", n+1, count), func(w, _ int) bool { return w == n }},
			variant{fmt.Sprintf("the first %d of %d unflushed writes lost", n, count), func(w, _ int) bool { return w >= n }},
		)
	}
	if count > 0 {
		list = append(list, torn(count-1, len(pending[count-1]))...)
	}
	for n := range subsets {
		list = append(list, subset(pending, random, n))
	}
	return list
}

// torn has the last write, of some sectors, done in part.
func torn(last, sectors int) []variant {
	var list []variant
	step := max(1, (sectors+tears-1)/tears)
	for at := step; at < sectors; at += step {
		list = append(list,
			variant{fmt.Sprintf("the last write torn after %d of %d sectors", at, sectors), func(w, s int) bool { return w != last || s < at }},
			variant{fmt.Sprintf("the last write torn before its last %d of %d sectors", sectors-at, sectors), func(w, s int) bool { return w != last || s >= at }},
			variant{fmt.Sprintf("all lost but %d of %d sectors of the last write", at, sectors), func(w, s int) bool { return w == last && s < at }},
		)
	}
	return list
}

// subset keeps at random: whole writes, or sectors of each.
func subset(pending [][]sector, random *rand.Rand, n int) variant {
	odds := 1 + random.IntN(9) // of 10
	keeps := make([][]bool, len(pending))
	for w := range pending {
		whole := random.IntN(10) < odds
		keeps[w] = make([]bool, len(pending[w]))
		for s := range keeps[w] {
			keeps[w][s] = whole
			if n%2 == 1 {
				keeps[w][s] = random.IntN(10) < odds
			}
		}
	}
	return variant{fmt.Sprintf("random part %d of the unflushed writes lost", n), func(w, s int) bool { return keeps[w][s] }}
}
