package tftp

import "testing"

// TestClean has a name for each way in which firmware spells one.
func TestClean(t *testing.T) {
	for name, want := range map[string]string{
		"a/b": "a/b", `\a\\b`: "a/b", "//a/./b/": "a/b", "../../a": "a", `..\a`: "a", "": "", "/": "", "..": "", ".": "",
	} {
		if got, ok := Clean(name); ok != (want != "") || ok && got != want {
			t.Errorf("Clean(%q) = %q, %v; want %q", name, got, ok, want)
		}
	}
}
