package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"machined/reconcile/conformance"
)

// TestSuiteInWebAssembly compiles the suite as it is now, with the compiler
// that `make tinygo` has left, and runs it.
func TestSuiteInWebAssembly(t *testing.T) {
	c, err := newCompiler("../..", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ready(t.Context()); err != nil {
		t.Skipf("%v; `make tinygo` makes it ready and runs the same", err)
	}
	results, err := c.suite(t.Context(), filepath.Join(t.TempDir(), "core.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if err := judge(t.Output(), results, conformance.Cases()); err != nil {
		t.Error(err)
	}
}

func TestJudge(t *testing.T) {
	native := []conformance.Case{{Name: "a"}, {Name: "b"}}
	for _, c := range []struct {
		name    string
		results []result
		printed string
		err     string // none when empty
	}{
		{"all passed", []result{{name: "a"}, {name: "b"}}, "2 cases passed", ""},
		{"one failed", []result{{name: "a"}, {name: "b", failures: []string{"Now() = 1; want 2"}}}, "Now() = 1; want 2", "1 of 2 cases failed"},
		{"one is missing", []result{{name: "a"}}, "", "1 cases ran in WebAssembly and 2 are there"},
		{"one is another", []result{{name: "a"}, {name: "c"}}, "", `"c" in WebAssembly and "b" natively`},
		{"none", nil, "", "0 cases ran"},
	} {
		var printed strings.Builder
		err := judge(&printed, c.results, native)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("judge(%s) = %v; want an error with %q", c.name, err, c.err)
		}
		if !strings.Contains(printed.String(), c.printed) {
			t.Errorf("judge(%s) printed %q; want %q in it", c.name, printed.String(), c.printed)
		}
	}
}

// TestForeignModules checks that a module that is not the suite is an error
// and no crash. The modules are in the binary format (WebAssembly Core
// Specification, 5.5): the smallest one, and one that imports e.f.
func TestForeignModules(t *testing.T) {
	const header = "\x00asm\x01\x00\x00\x00"
	for _, c := range []struct{ name, module, want string }{
		{"no module", "hello", "compile the WebAssembly module"},
		{"empty", header, "does not export count"},
		{"one that imports", header + "\x01\x04\x01\x60\x00\x00" + "\x02\x07\x01\x01e\x01f\x00\x00", "imports e.f"},
	} {
		if _, err := runSuite(t.Context(), []byte(c.module)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("runSuite(%s) = %v; want an error with %q", c.name, err, c.want)
		}
	}
}
