package ext4_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"machined/tools/parts/ext4"
)

func run(t *testing.T) func(env []string, name string, args ...string) error {
	return func(env []string, name string, args ...string) error {
		path, err := exec.LookPath(name)
		if err != nil && os.Getenv("CI") != "true" {
			t.Skipf("no %s, `make setup` installs it: %v", name, err)
		}
		if err != nil {
			return err
		}
		cmd := exec.Command(path, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %s", name, out)
		return err
	}
}

// TestTemplates checks that nothing that counts was cut off: with anything at
// all behind its end, e2fsck finds the file system clean.
func TestTemplates(t *testing.T) {
	for _, template := range ext4.Templates() {
		path := filepath.Join(t.TempDir(), "image")
		if err := template.Make(path, 1_790_000_000, run(t)); err != nil {
			t.Fatal(err)
		}
		image, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if most := map[string]int{"small.ext4.gz": 1200 << 10, "large.ext4.gz": 7 << 20}[template.Name]; len(image) > most {
			t.Errorf("%s has %d bytes; want %d at most, since a node has to write them", template.Name, len(image), most)
		}
		remains := strings.Repeat("\xa5", 32<<20-len(image))
		if err := os.WriteFile(path, append(image, remains...), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(t)(nil, "e2fsck", "-f", "-n", path); err != nil {
			t.Errorf("e2fsck of %s: %v", template.Name, err)
		}
	}
}
