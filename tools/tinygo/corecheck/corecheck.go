// Package corecheck keeps the core of machined free of what would tie it to an
// operating system, make a simulation differ from run to run, or not compile
// with TinyGo. It is an analyzer of golang.org/x/tools/go/analysis.
package corecheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// New returns the analyzer. It has nothing to say of packages outside of the
// core, nor of test files.
func New() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: "corecheck",
		Doc:  "report what the core must not use: I/O, goroutines, channels, maps, the clock, variables of packages",
		Run:  run,
	}
}

// Patterns are those by which the go command lists the core.
func Patterns() []string {
	return []string{
		"machined/reconcile/...", "machined/board", "machined/rpi", "machined/x86",
		"machined/hal", "machined/hal/fake", "machined/hal/signature",
	}
}

// IsCore reports whether the package of that path belongs to the core. The
// program that the go command makes of a package's tests does not.
func IsCore(path string) bool {
	if strings.HasSuffix(path, ".test") {
		return false
	}
	for _, p := range Patterns() {
		root, below := strings.CutSuffix(p, "/...")
		if path == root || below && strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}

// check is one look at one package.
type check struct{ *analysis.Pass }

func run(pass *analysis.Pass) (any, error) {
	if !IsCore(pass.Pkg.Path()) {
		return nil, nil
	}
	c := check{pass}
	for _, file := range pass.Files {
		if strings.HasSuffix(filepath.Base(pass.Fset.Position(file.FileStart).Filename), "_test.go") {
			continue
		}
		c.imports(file)
		c.variables(file)
		c.code(file)
	}
	return nil, nil
}

// code walks through the file once for what may stand anywhere.
func (c check) code(file *ast.File) {
	var parents []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		c.concurrency(n)
		switch n := n.(type) {
		case *ast.MapType:
			c.Reportf(n.Pos(), "map type: its order differs from run to run, and a simulation must not; keep a sorted slice")
		case *ast.Ident:
			c.name(n, parents)
		}
		parents = append(parents, n)
		return true
	})
}

// oneGoroutine is the reason against goroutines and channels.
const oneGoroutine = "the core runs on one goroutine, its caller's; start slow work through hal and poll it"

// name looks at a use of another package's name.
func (c check) name(id *ast.Ident, parents []ast.Node) {
	object := c.TypesInfo.Uses[id]
	if object == nil || object.Pkg() == nil {
		return
	}
	switch object.Pkg().Path() {
	case "time":
		c.clock(id, object, parents)
	case "iter":
		if id.Name == "Pull" || id.Name == "Pull2" {
			c.Reportf(id.Pos(), "iter.%s makes a goroutine: %s", id.Name, oneGoroutine)
		}
	}
}

// concurrency reports goroutines and channels.
func (c check) concurrency(n ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.Reportf(n.Pos(), "go statement: %s", oneGoroutine)
	case *ast.ChanType:
		c.Reportf(n.Pos(), "channel type: %s", oneGoroutine)
	case *ast.SendStmt:
		c.Reportf(n.Arrow, "send to a channel: %s", oneGoroutine)
	case *ast.SelectStmt:
		c.Reportf(n.Pos(), "select statement: %s", oneGoroutine)
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			c.Reportf(n.Pos(), "receive from a channel: %s", oneGoroutine)
		}
	case *ast.RangeStmt:
		if t := c.TypesInfo.TypeOf(n.X); t != nil {
			if _, ok := t.Underlying().(*types.Chan); ok {
				c.Reportf(n.Pos(), "range over a channel: %s", oneGoroutine)
			}
		}
	}
}

// variables reports the state that a package would keep.
func (c check) variables(file *ast.File) {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.VAR {
			continue
		}
		for _, spec := range general.Specs {
			value := spec.(*ast.ValueSpec)
			for _, name := range value.Names {
				if name.Name == "_" && value.Type != nil && types.IsInterface(c.TypesInfo.TypeOf(value.Type)) {
					continue
				}
				c.Reportf(name.Pos(), "variable %s of the package: two simulated nodes would share it; make it a field, a constant or a function (errors: hal.Error)", name.Name)
			}
		}
	}
}
