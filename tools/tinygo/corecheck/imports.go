package corecheck

import (
	"go/ast"
	"strconv"
	"strings"
)

const module = "machined"

// imports reports what the file may not import.
func (c check) imports(file *ast.File) {
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the compiler says it better
		}
		if reason := refused(c.Pkg.Path(), path); reason != "" {
			c.Reportf(spec.Pos(), "import of %s: %s", path, reason)
		}
	}
}

// refused says why the package of the core may not import path; empty if it
// may.
func refused(pkg, path string) string {
	switch {
	case path == module || strings.HasPrefix(path, module+"/"):
		return refusedOwn(pkg, path)
	case allowed(path):
		return ""
	}
	return reasonAgainst(path)
}

// allowed lists the standard library's part that does no I/O, keeps no state
// and compiles to little with TinyGo.
func allowed(path string) bool {
	switch path {
	case "errors", "strconv", "strings", "bytes", "unicode/utf8", "math", "math/bits",
		"cmp", "slices", "sort", "time", "iter", "encoding/binary", "hash/crc32", "unicode/utf16":
		return true
	}
	return false
}

func reasonAgainst(path string) string {
	switch path {
	case "fmt", "encoding/json", "reflect", "text/template":
		return "it rests on reflection, which is slow, allocates and is only half there in TinyGo; use strconv and append"
	case "os", "io", "io/fs", "io/ioutil", "os/exec", "os/signal", "path/filepath", "bufio", "embed":
		return "the core does no I/O; ask for it through an interface of hal"
	case "net", "net/netip", "net/http", "net/url":
		return "the core has no network of its own; addresses are hal.Address and hal.Prefix"
	case "sync", "sync/atomic", "context":
		return "the core runs on one goroutine, its caller's, and has nothing to lock, share or cancel"
	case "syscall", "unsafe", "runtime", "runtime/debug", "C", "golang.org/x/sys/unix":
		return "it ties the core to one system; what the kernel does belongs in hal/linux"
	case "log", "log/slog":
		return "the core does not log; return an error or publish a status"
	case "testing":
		return "it pulls in reflection and files; keep tests to _test.go files, and cases that also run in WebAssembly to reconcile/conformance"
	case "maps":
		return "the core has no maps, whose order differs from run to run; keep a sorted slice"
	case "math/rand", "math/rand/v2", "crypto/rand":
		return "chance makes a simulation differ from run to run; take a seed or the numbers as an argument"
	}
	if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
		return "the core uses nothing but the standard library and itself"
	}
	return "it is not in the list of packages that do no I/O and that TinyGo compiles well; extend the list in corecheck if it is one of them"
}

// refusedOwn keeps the imports inside of the core running one way.
func refusedOwn(pkg, path string) string {
	if !IsCore(path) {
		return "it is no part of the core, which runs without it; turn the dependency around"
	}
	var may []string
	switch {
	case under(pkg, module+"/reconcile/conformance"):
		return "" // it checks all of the core
	case under(pkg, module+"/reconcile"):
		may = []string{module + "/reconcile", module + "/hal"}
		if path == module+"/reconcile/conformance" {
			return "the suite checks the packages of the core, and none of them may need it"
		}
		// Nothing but the interfaces: hal/fake is for those who simulate.
		if path == module+"/hal/fake" {
			return "the core works on the interfaces of hal; whoever runs it chooses the drivers"
		}
	case pkg == module+"/hal/fake", pkg == module+"/hal/signature", pkg == module+"/rpi", pkg == module+"/x86":
		may = []string{module + "/hal"}
	case pkg == module+"/board":
		may = []string{module + "/hal", module + "/rpi", module + "/x86"}
	}
	for _, root := range may {
		if under(path, root) && path != module+"/hal/fake" {
			return ""
		}
	}
	if len(may) == 0 {
		return pkg + " imports nothing of the module"
	}
	return pkg + " imports nothing of the module but " + strings.Join(may, ", ")
}

// under reports whether path is root or below it.
func under(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}
