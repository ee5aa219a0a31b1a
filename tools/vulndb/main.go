// Command vulndb lays out the Go vulnerability database for govulncheck, from
// the Go module golang.org/x/vulndb that go.mod pins. So the check needs no
// network, and answers the same for the same commit.
//
//	go run ./tools/vulndb --out build/vulndb
//	go tool govulncheck -db file://$PWD/build/vulndb ./...
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// module carries the entries of the database as data/osv/ID.json.
const module = "golang.org/x/vulndb"

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("vulndb", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("out", "build/vulndb", "the database's directory, made anew")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := build(*out, stderr); err != nil {
		fmt.Fprintln(stderr, "vulndb:", err)
		return 1
	}
	return 0
}

// build writes the database to out. One that is there stays whole until the
// new one is complete.
func build(out string, log io.Writer) error {
	dir, modified, err := locate()
	if err != nil {
		return err
	}
	entries, err := readEntries(filepath.Join(dir, "data", "osv"))
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(abs), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(abs), ".vulndb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, "db")
	if err := writeDatabase(fresh, entries, modified); err != nil {
		return fmt.Errorf("write the database: %w", err)
	}
	if err := os.Rename(abs, filepath.Join(work, "old")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, abs); err != nil {
		return err
	}
	fmt.Fprintf(log, "vulndb: %d entries in %s, as of %s\n", len(entries), out, modified.Format(time.DateOnly))
	return nil
}

// locate returns the module's directory and the time of its commit.
func locate() (dir string, modified time.Time, err error) {
	if out, err := exec.Command("go", "mod", "download", module).CombinedOutput(); err != nil {
		return "", time.Time{}, fmt.Errorf("fetch the Go module %s: %w\n%s", module, err, out)
	}
	const format = `{{.Dir}}{{"\t"}}{{.Time.Format "2006-01-02T15:04:05Z07:00"}}`
	out, err := exec.Command("go", "list", "-m", "-f", format, module).Output()
	if err != nil {
		return "", time.Time{}, fmt.Errorf("find the Go module %s; go.mod has to require it: %w", module, err)
	}
	dir, stamp, _ := strings.Cut(strings.TrimSpace(string(out)), "\t")
	modified, err = time.Parse(time.RFC3339, stamp)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the time of the Go module %s: %w", module, err)
	}
	return dir, modified.UTC(), nil
}
