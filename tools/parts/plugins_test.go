package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAsPackage changes the package's name and main alone.
func TestAsPackage(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "main.go"), filepath.Join(dir, "out", "main.go")
	const command = "// Not package main.\npackage main\n\nfunc main() {\n\tmainly()\n}\n\nfunc mainly() {}\n"
	const want = "// Not package main.\npackage hostlocal\n\nfunc Main() {\n\tmainly()\n}\n\nfunc mainly() {}\n"
	if err := os.WriteFile(from, []byte(command), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := asPackage(from, to, "hostlocal"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || string(got) != want {
		t.Errorf("asPackage() wrote %q, %v; want %q", got, err, want)
	}
}
