package corecheck

import (
	"go/importer"
	"go/token"
	"strings"
	"testing"
)

func TestStandardImports(t *testing.T) {
	for _, path := range []string{
		"errors", "strconv", "strings", "bytes", "unicode/utf8", "math", "math/bits", "cmp", "slices", "sort",
		"time", "iter", "encoding/binary", "hash/crc32",
	} {
		if got := refused("machined/board", path); got != "" {
			t.Errorf("refused(board, %s) = %q; want it allowed", path, got)
		}
	}
	for _, c := range []struct{ path, reason string }{
		{"os", "no I/O"}, {"io", "no I/O"}, {"net", "hal.Address"}, {"net/netip", "hal.Address"},
		{"reflect", "reflection"}, {"fmt", "reflection"}, {"encoding/json", "reflection"}, {"sync", "one goroutine"},
		{"context", "one goroutine"}, {"syscall", "hal/linux"}, {"unsafe", "hal/linux"}, {"C", "hal/linux"},
		{"log", "does not log"}, {"testing", "_test.go"}, {"maps", "order"}, {"math/rand/v2", "chance"},
		{"golang.org/x/exp/slices", "standard library"}, {"container/heap", "not in the list"}, {"math/cmplx", "not in the list"},
	} {
		if got := refused("machined/board", c.path); !strings.Contains(got, c.reason) {
			t.Errorf("refused(board, %s) = %q; want a reason with %q", c.path, got, c.reason)
		}
	}
}

func TestOwnImports(t *testing.T) {
	for _, c := range []struct {
		pkg string
		may string // core packages, apart by spaces
	}{
		{"machined/hal", ""},
		{"machined/hal/fake", "machined/hal"},
		{"machined/rpi", "machined/hal"},
		{"machined/x86", "machined/hal"},
		{"machined/board", "machined/hal machined/rpi machined/x86"},
		{"machined/reconcile", "machined/hal machined/reconcile/resource machined/reconcile/network"},
		{"machined/reconcile/network", "machined/hal machined/reconcile machined/reconcile/resource"},
		{"machined/reconcile/conformance", "machined/hal machined/hal/fake machined/board machined/rpi machined/x86 machined/reconcile machined/reconcile/resource machined/reconcile/network"},
	} {
		for _, path := range []string{
			"machined/hal", "machined/hal/fake", "machined/board", "machined/rpi", "machined/x86",
			"machined/reconcile", "machined/reconcile/resource", "machined/reconcile/network", "machined/reconcile/conformance",
			"machined/hal/linux", "machined/hal/conformance", "machined/init", "machined/api", "machined/images",
		} {
			if path == c.pkg {
				continue
			}
			want := strings.Contains(" "+c.may+" ", " "+path+" ")
			if got := refused(c.pkg, path); (got == "") != want {
				t.Errorf("refused(%s, %s) = %q; want it allowed: %v", c.pkg, path, got, want)
			}
		}
	}
}

func TestImportsAreReported(t *testing.T) {
	fset := token.NewFileSet()
	i := imports{importer.ForCompiler(fset, "source", nil)}
	got := findings(t, i, fset, "machined/rpi", "a.go", "package rpi\nimport (\n _ \"machined/hal\"\n _ \"machined/x86\"\n _ \"fmt\"\n _ \"strings\"\n)\n")
	compare(t, got, []string{"4: import of machined/x86: machined/rpi imports nothing of the module but machined/hal", "5: import of fmt: it rests on reflection"})
}

func TestIsCore(t *testing.T) {
	for path, want := range map[string]bool{
		"machined/reconcile": true, "machined/reconcile/network": true, "machined/hal": true, "machined/hal/fake": true,
		"machined/board": true, "machined/rpi": true, "machined/x86": true,
		"machined/reconciled": false, "machined/hal/linux": false, "machined/hal/conformance": false, "machined/board/x": false,
		"machined/reconcile.test": false, "machined": false, "machined/init": false, "time": false,
	} {
		if got := IsCore(path); got != want {
			t.Errorf("IsCore(%s) = %v; want %v", path, got, want)
		}
	}
}
