package linux

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNobodyElseWaits keeps os/exec out of PID 1. Its Wait and the reaper's
// wait4(-1) race for the status of each child: the loser of the race reports
// "no child processes", and a service that ended is shown as running for ever.
func TestNobodyElseWaits(t *testing.T) {
	for _, dir := range []string{"../../init", "../../hal"} {
		for path, imported := range imports(t, dir) {
			for _, name := range imported {
				if name == "os/exec" {
					t.Errorf("%s imports %s; processes are started through hal.Processes", path, name)
				}
			}
		}
	}
}

// TestSmallImports keeps the interfaces, the simulated drivers, and what reads
// foreign bytes to what TinyGo compiles to a small program.
func TestSmallImports(t *testing.T) {
	small := []string{
		"cmp", "encoding/binary", "errors", "hash/crc32", "math/bits", "slices", "strconv", "strings", "unicode/utf16", "unicode/utf8",
		"machined/hal",
	}
	for _, dir := range []string{"..", "../fake", "../signature"} {
		for path, imported := range imports(t, dir) {
			if filepath.Dir(path) != dir {
				continue
			}
			for _, name := range imported {
				if !slices.Contains(small, name) {
					t.Errorf("%s imports %s; want nothing but %s", path, name, strings.Join(small, ", "))
				}
			}
		}
	}
}

// imports returns what the files below dir import, tests aside.
func imports(t *testing.T, dir string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		found[path] = nil
		for _, i := range file.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			found[path] = append(found[path], name)
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("read the imports below %s: %d files, %v", dir, len(found), err)
	}
	return found
}
