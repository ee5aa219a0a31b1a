package config

import "strings"

// suggest returns `; did you mean "x"?`, or "" when no known word is near. Only
// the first errors of a file get one: comparing thousands of unknown words with
// thousands of service ids would hold up the boot.
func (d *decoder) suggest(word string, known []string) string {
	const most = 50
	d.suggested++
	if d.suggested > most {
		return ""
	}
	return suggest(word, known)
}

// suggest returns `; did you mean "x"?` for the nearest of the known words, and
// "" when none is near.
func suggest(word string, known []string) string {
	word = strings.ReplaceAll(strings.ToLower(word), "-", "_")
	// A third of the letters may differ: enough for two slips in a long name,
	// too little to turn `up` into `to`.
	best, bestDistance := "", len(word)/3
	if len(word) == 3 {
		bestDistance = 1
	}
	if len(word) > 40 {
		return ""
	}
	for _, k := range known {
		if d := distance(word, k); d <= bestDistance && (best == "" || d < bestDistance) {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return `; did you mean "` + best + `"?`
}

// distance is the number of inserted, deleted, changed and swapped
// neighbouring letters between a and b (optimal string alignment).
func distance(a, b string) int {
	previous := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	before := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, previous, row = previous, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := previous[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, previous[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
