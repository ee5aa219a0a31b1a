package bundle

import (
	"cmp"
	"testing"
)

// TestCompare compares each of a sorted list with each.
func TestCompare(t *testing.T) {
	sorted := []string{
		"v0.0.0", "v0.9.10", "v1.0.0-1", "v1.0.0-2.x", "v1.0.0-10", "v1.0.0-alpha", "v1.0.0-alpha.1", "v1.0.0-alpha.beta", "v1.0.0-beta",
		"v1.0.0-beta.2", "v1.0.0-beta.11", "v1.0.0-rc.1", "v1.0.0-rc.1-dirty", "v1.0.0-rc.1-3-gabc1234", "v1.0.0", "v1.0.0-dirty",
		"v1.0.0-1-g08c378b", "v1.0.0-1-g08c378b-dirty", "v1.0.0-9-gdeadbeef", "v1.0.0-10-g0000000", "v1.0.1", "v1.2.0", "v1.10.0", "v2.0.0",
		"v2.0.99999999999999999999", "v10.0.0",
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got, ok := Compare(a, b); !ok || cmp.Compare(got, 0) != cmp.Compare(i, j) {
				t.Errorf("Compare(%s, %s) = %d, %v; want %d", a, b, got, ok, cmp.Compare(i, j))
			}
		}
		if !Comparable(a) {
			t.Errorf("Comparable(%s) = false; want true", a)
		}
	}
	for _, pair := range [][2]string{
		{"08c378b", "08c378b"}, {"devel", "devel"}, {"v1.2.3", "v1.2.3+more"}, {"v1.2.3-4-gabc1234", "v1.2.3-4-gdef5678"}, {"v2026.05.01", "v2026.5.1"},
	} {
		if got, ok := Compare(pair[0], pair[1]); got != 0 || !ok {
			t.Errorf("Compare(%s, %s) = %d, %v; want 0", pair[0], pair[1], got, ok)
		}
	}
	for _, v := range []string{
		"", "devel", "08c378b", "08c378b-dirty", "1234567", "1.2.3", "v1", "v1.2", "v1.2.3.4", "v1..3", "v1.2.x", "v1.2.3-", "v1.2.3-a..b", "v1.2.3-a_b", "vabcdef0", "v-1.0.0", "V1.2.3", "v1.2.3 ",
	} {
		if got, ok := Compare(v, "v1.0.0"); ok || Comparable(v) {
			t.Errorf("Compare(%q, v1.0.0) = %d, %v; want them not comparable", v, got, ok)
		}
	}
}
