package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFix(t *testing.T) {
	semverRange := func(bounds ...string) versionRange {
		r := versionRange{Type: "SEMVER"}
		for i, b := range bounds {
			if i%2 == 0 {
				r.Events = append(r.Events, event{Introduced: b})
			} else {
				r.Events = append(r.Events, event{Fixed: b})
			}
		}
		return r
	}
	for _, c := range []struct {
		name   string
		ranges []versionRange
		want   string
	}{
		{"no range", nil, ""},
		{"never fixed", []versionRange{semverRange("0")}, ""},
		{"fixed once", []versionRange{semverRange("0", "1.2.3")}, "1.2.3"},
		{"two release lines", []versionRange{semverRange("0", "1.21.9", "1.22.0-0", "1.22.2")}, "1.22.2"},
		{"back again and open", []versionRange{semverRange("0", "1.2.0", "1.4.0")}, ""},
		{"out of order", []versionRange{semverRange("1.10.0", "1.10.4", "0", "1.9.9")}, "1.10.4"},
		{"not as text", []versionRange{semverRange("0", "1.9.0", "1.10.0", "1.11.0")}, "1.11.0"},
		{"two ranges", []versionRange{semverRange("0", "2.0.1"), semverRange("0", "1.9.9")}, "2.0.1"},
		{"two ranges, one open", []versionRange{semverRange("0", "2.0.1"), semverRange("2.1.0")}, ""},
		{"a pseudo-version", []versionRange{semverRange("0", "0.0.0-20260626085133-7cb96ac80a6d")}, "0.0.0-20260626085133-7cb96ac80a6d"},
		{"no version", []versionRange{semverRange("0", "yesterday")}, ""},
		{"another kind of range", []versionRange{{Type: "GIT", Events: []event{{Introduced: "0"}, {Fixed: "1.0.0"}}}}, ""},
		{"a range without events", []versionRange{{Type: "SEMVER"}}, ""},
	} {
		if got := fix(c.ranges); got != c.want {
			t.Errorf("fix(%s) = %q; want %q", c.name, got, c.want)
		}
	}
}

func TestModules(t *testing.T) {
	parse := func(text string) entry {
		e := entry{raw: []byte(text)}
		if err := json.Unmarshal(e.raw, &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	affects := func(module, fixed string) string {
		end := ""
		if fixed != "" {
			end = fmt.Sprintf(`,{"fixed":%q}`, fixed)
		}
		return fmt.Sprintf(`{"package":{"name":%q},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}%s]}]}`, module, end)
	}
	got, err := json.Marshal(modules([]entry{
		parse(`{"id":"GO-2","affected":[` + affects("b.example", "1.0.0") + `,` + affects("a.example", "1.9.0") + `,` + affects("a.example", "1.10.0") + `]}`),
		parse(`{"id":"GO-1","affected":[` + affects("a.example", "3.0.0") + `,` + affects("a.example", "") + `]}`),
		parse(`{"id":"GO-3"}`),
	}, time.Unix(0, 0).UTC()))
	if err != nil {
		t.Fatal(err)
	}
	const at = `"modified":"1970-01-01T00:00:00Z"`
	want := `[{"path":"a.example","vulns":[{"id":"GO-1",` + at + `},{"id":"GO-2",` + at + `,"fixed":"1.10.0"}]},` +
		`{"path":"b.example","vulns":[{"id":"GO-2",` + at + `,"fixed":"1.0.0"}]}]`
	if string(got) != want {
		t.Errorf("modules() = %s; want %s", got, want)
	}
}

func TestReadEntriesRefuses(t *testing.T) {
	for _, c := range []struct{ name, file, text, says string }{
		{"nothing", "", "", "there are none"},
		{"another id", "GO-1.json", `{"id":"GO-2"}`, `it has the id "GO-2"; want "GO-1"`},
		{"no JSON", "GO-1.json", `{`, "unexpected end"},
	} {
		dir := t.TempDir()
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := readEntries(dir); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("readEntries(%s) = %v; want %q in it", c.name, err, c.says)
		}
	}
}

// TestDatabase builds the real database and has govulncheck judge a program
// that is known to be vulnerable, and one that is not.
func TestDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("builds govulncheck; left out by -short")
	}
	db := filepath.Join(t.TempDir(), "db")
	for range 2 { // the second replaces the first
		if code := run([]string{"--out", db}, io.Discard); code != 0 {
			t.Fatalf("run() = %d; want 0", code)
		}
	}
	if rest, err := filepath.Glob(filepath.Join(filepath.Dir(db), ".vulndb-*")); err != nil || len(rest) != 0 {
		t.Errorf("left behind: %v, %v; want nothing", rest, err)
	}
	checkIndex(t, db)
	// Rapid reset: golang.org/x/net/http2 before 0.17.0.
	const rapidReset = "GO-2023-2102"
	if found := scan(t, db, "v0.16.0"); !slices.Contains(found, rapidReset) {
		t.Errorf("govulncheck finds %v in golang.org/x/net v0.16.0; want %s", found, rapidReset)
	}
	if found := scan(t, db, "v0.17.0"); slices.Contains(found, rapidReset) {
		t.Errorf("govulncheck finds %v in golang.org/x/net v0.17.0; want it without %s", found, rapidReset)
	}
}

func checkIndex(t *testing.T, db string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(db, "index", "modules.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index []moduleIndex
	if err := json.Unmarshal(b, &index); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(index, func(a, b moduleIndex) int { return strings.Compare(a.Path, b.Path) }) {
		t.Error("index/modules.json is not in order")
	}
	fixes := make(map[string]string)
	for _, m := range index {
		for _, v := range m.Vulns {
			fixes[m.Path+" "+v.ID] = v.Fixed
			if _, err := os.Stat(filepath.Join(db, "ID", v.ID+".json")); err != nil {
				t.Errorf("%s of %s: %v", v.ID, m.Path, err)
			}
		}
	}
	for key, want := range map[string]string{
		"golang.org/x/net GO-2023-2102": "0.17.0",
		"stdlib GO-2024-2687":           "1.22.2", // two release lines
	} {
		if got, ok := fixes[key]; got != want || !ok {
			t.Errorf("the fix of %s is %q, %v; want %q", key, got, ok, want)
		}
	}
}

// scan returns the ids that govulncheck finds in a program that has
// golang.org/x/net of that version linked in. It reads a description in the
// place of the program, so that nothing old needs to be built.
func scan(t *testing.T, db, version string) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	text := `{"name":"govulncheck-extract","version":"0.1.0"}
{"modules":[{"Path":"golang.org/x/net","Version":"` + version + `"}],` +
		`"pkgSymbols":[{"pkg":"golang.org/x/net/http2","name":"Server.ServeConn"}],"goVersion":"go1.26.0","goos":"linux","goarch":"amd64"}
`
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "tool", "govulncheck", "-db", "file://"+db, "-mode", "binary", "-format", "json", program)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("govulncheck: %v", err)
	}
	var found []string
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var message struct {
			Finding *struct{ OSV string }
		}
		if err := d.Decode(&message); err != nil {
			t.Fatal(err)
		}
		if message.Finding != nil {
			found = append(found, message.Finding.OSV)
		}
	}
	return found
}
