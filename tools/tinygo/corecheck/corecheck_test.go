package corecheck

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
)

// imports gives the packages whose names a rule is about, and empty ones in
// place of all others: of those a rule sees nothing but the path.
type imports struct{ real types.Importer }

func (i imports) Import(path string) (*types.Package, error) {
	switch path {
	case "time", "iter":
		return i.real.Import(path)
	case "unsafe":
		return types.Unsafe, nil
	}
	p := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	p.MarkComplete()
	return p, nil
}

// findings runs the analyzer over one file, and returns "LINE: MESSAGE" of
// each report.
func findings(t *testing.T, i types.Importer, fset *token.FileSet, pkg, name, source string) []string {
	t.Helper()
	file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: i}
	checked, err := config.Check(pkg, fset, []*ast.File{file}, info)
	if err != nil {
		t.Fatalf("the source of the test does not compile: %v\n%s", err, source)
	}
	var got []string
	pass := &analysis.Pass{Analyzer: New(), Fset: fset, Files: []*ast.File{file}, Pkg: checked, TypesInfo: info}
	pass.Report = func(d analysis.Diagnostic) {
		got = append(got, strconv.Itoa(fset.Position(d.Pos).Line)+": "+d.Message)
	}
	if _, err := pass.Analyzer.Run(pass); err != nil {
		t.Fatal(err)
	}
	return got
}

// rule is a source, without its package clause, and the beginnings of what is
// reported of it. Line 1 is the first of the source.
type rule struct {
	name, source string
	want         []string
}

func checkRules(t *testing.T, rules []rule) {
	fset := token.NewFileSet()
	i := imports{importer.ForCompiler(fset, "source", nil)}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			const pkg = "machined/reconcile/network"
			compare(t, findings(t, i, fset, pkg, "a.go", "package network;"+r.source), r.want)
			if got := findings(t, i, fset, pkg, "a_test.go", "package network;"+r.source); len(got) != 0 {
				t.Errorf("reported of a test file: %q; want nothing", got)
			}
			for _, other := range []string{"machined/init", "machined/reconciled", "machined/hal/linux", "machined/hal/conformance"} {
				if got := findings(t, i, fset, other, "a.go", "package network;"+r.source); len(got) != 0 {
					t.Errorf("reported of %s: %q; want nothing", other, got)
				}
			}
		})
	}
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = strings.HasPrefix(got[i], want[i])
	}
	if !same {
		t.Errorf("reported %q; want those that begin with %q", got, want)
	}
}

func TestConcurrency(t *testing.T) {
	checkRules(t, []rule{
		{"go statement", "func f() {\n go f()\n}", []string{"2: go statement"}},
		{"deferred call", "func f() { defer f() }", nil},
		{"channel type", "type c struct {\n in <-chan int\n}", []string{"2: channel type"}},
		{"make a channel", "func f() { _ = make(chan int, 1) }", []string{"1: channel type"}},
		{"make a slice", "func f() { _ = make([]int, 1) }", nil},
		{"send", "func f(c chan<- int) {\n c <- 1\n}", []string{"1: channel type", "2: send to a channel"}},
		{"receive", "func f(c chan int) {\n <-c\n}", []string{"1: channel type", "2: receive from a channel"}},
		{"other operators", "func f(a int, p *int) int { return -a ^ *p }", nil},
		{"range", "func f(c chan int) {\n for range c {}\n}", []string{"1: channel type", "2: range over a channel"}},
		{"range over others", "func f(s []int, g func(func(int) bool)) { for range s {}; for range 3 {}; for range g {} }", nil},
		{"select", "func f() {\n select {}\n}", []string{"2: select statement"}},
		{"switch", "func f() { switch {} }", nil},
		{"pulled iterator", "import \"iter\"\nfunc f(s iter.Seq[int]) {\n _, stop := iter.Pull(s); stop()\n}", []string{"3: iter.Pull makes a goroutine"}},
		{"iterator", "import \"iter\"\nfunc f(s iter.Seq[int]) { for range s {} }", nil},
	})
}

func TestMaps(t *testing.T) {
	checkRules(t, []rule{
		{"type", "type m map[string]int", []string{"1: map type"}},
		{"literal", "func f() int {\n return map[string]int{}[\"a\"]\n}", []string{"2: map type"}},
		{"make", "func f() { _ = make(map[int]bool) }", []string{"1: map type"}},
		{"parameter", "func f(map[int]bool) {}", []string{"1: map type"}},
		{"constraint", "func f[M ~map[K]V, K comparable, V any](M) {}", []string{"1: map type"}},
		{"slices and structs", "type pair struct { k string; v int }; func f() []pair { return []pair{{\"a\", 1}} }", nil},
	})
}

func TestVariables(t *testing.T) {
	checkRules(t, []rule{
		{"variable", "var a int", []string{"1: variable a of the package"}},
		{"several", "var (\n a, b = 1, 2\n c []int\n)", []string{"2: variable a", "2: variable b", "3: variable c"}},
		{"assertion", "type i interface{ m() }; type s struct{}; func (s) m() {}; var _ i = s{}", nil},
		{"blank without an interface", "func f() int { return 1 }\nvar _ = f()\nvar _ int = f()", []string{"2: variable _", "3: variable _"}},
		{"constant", "const a = 1", nil},
		{"constant error", "type Error string; func (e Error) Error() string { return string(e) }; const ErrA Error = \"a\"", nil},
		{"variable of a function", "func f() int { var a int; return a }", nil},
	})
}

func TestClock(t *testing.T) {
	line := func(body string) string { return "import \"time\"\n" + body }
	rules := []rule{
		{"durations", line("func f(d time.Duration) (string, float64) { return (d + 3*time.Second).String(), d.Truncate(time.Hour).Seconds() }"), nil},
		{"Unix in UTC", line("func f(n int64) (int, time.Month) { t := time.Unix(0, n).UTC(); return t.Year(), t.Month() }"), nil},
		{"UnixMilli in UTC", line("func f(n int64) time.Weekday { return time.UnixMilli(n).UTC().Weekday() }"), nil},
		{"Date in UTC", line("func f() int64 { return time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC).Unix() }"), nil},
		{"computing", line("func f(a, b time.Time) bool { return a.Add(time.Minute).After(b) || a.Sub(b) > time.Hour || a.IsZero() }"), nil},
		{"own names", "type c struct{}; func (c) Now() int64 { return 0 }; func f(x c) int64 { return x.Now() }", nil},
		{"Unix in local time", line("func f() int { return time.Unix(1, 2).Year() }"), []string{"2: time.Unix without UTC"}},
		{"Unix as a value", line("func g(func(int64, int64) time.Time) time.Time { return time.Time{} }\nfunc f() { _ = g(time.Unix).UTC() }"), []string{"3: time.Unix without UTC"}},
		{"Local", line("func f(t time.Time) time.Time { return t.In(time.Local) }"), []string{"2: In of a time.Time", "2: time.Local"}},
		{"to local time", line("func f(t time.Time) time.Time { return t.Local() }"), []string{"2: Local of a time.Time"}},
		{"formatting", line("func f(t time.Time) string { return t.Format(time.RFC3339) + t.String() }"), []string{"2: Format of a time.Time", "2: time.RFC3339", "2: String of a time.Time"}},
		{"LoadLocation", line("func f() { _, _ = time.LoadLocation(\"\") }"), []string{"2: time.LoadLocation"}},
		{"Parse", line("func f() { _, _ = time.Parse(\"\", \"\") }"), []string{"2: time.Parse"}},
		{"under another name", "import wall \"time\"\nfunc f() { _ = wall.Now() }", []string{"2: time.Now: time comes in as an argument"}},
		{"without a name", "import . \"time\"\nfunc f() { _ = Now() }", []string{"2: time.Now: time comes in as an argument"}},
		{"as a value", line("func f() func() time.Time { return time.Now }"), []string{"2: time.Now: time comes in as an argument"}},
	}
	for _, call := range []string{
		"Now()", "Since(t)", "Until(t)", "Sleep(1)", "After(1)", "AfterFunc(1, nil)", "NewTimer(1)", "NewTicker(1)", "Tick(1)", "Timer{}", "Ticker{}",
	} {
		name := call[:strings.IndexAny(call, "({")]
		statement := "_ = time." + call
		if name == "Sleep" {
			statement = "time." + call
		}
		rules = append(rules, rule{name, line("func f(t time.Time) { " + statement + " }"), []string{"2: time." + name + ": time comes in as an argument"}})
	}
	checkRules(t, rules)
}
