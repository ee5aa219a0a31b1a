package main

import (
	"go/token"
	"slices"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"machined/tools/tinygo/corecheck"
)

// TestCoreKeepsItsRules looks at the core as it is, so that a break is seen
// without TinyGo.
func TestCoreKeepsItsRules(t *testing.T) {
	config := &packages.Config{Mode: packages.LoadSyntax, Dir: "../..", Fset: token.NewFileSet()}
	core, err := packages.Load(config, corecheck.Patterns()...)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, p := range core {
		paths = append(paths, p.PkgPath)
		for _, err := range p.Errors {
			t.Errorf("%s does not compile: %v", p.PkgPath, err)
		}
	}
	// A pattern that matches nothing is no error, and would check nothing.
	for _, want := range []string{
		"machined/reconcile/resource", "machined/reconcile/conformance", "machined/board", "machined/rpi", "machined/x86",
		"machined/hal", "machined/hal/fake",
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("the packages of the core are %q; want %s among them", paths, want)
		}
	}
	if t.Failed() {
		return
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{corecheck.New()}, core, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range graph.Roots {
		if action.Err != nil {
			t.Errorf("%s: %v", action.Package.PkgPath, action.Err)
		}
		for _, d := range action.Diagnostics {
			t.Errorf("%s: %s", config.Fset.Position(d.Pos), d.Message)
		}
	}
}
