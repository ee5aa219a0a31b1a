package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/semver"
)

// The indexes, as https://go.dev/doc/security/vuln/database specifies them.
type (
	databaseIndex struct {
		Modified time.Time `json:"modified"`
	}
	moduleIndex struct {
		Path  string       `json:"path"`
		Vulns []vulnerable `json:"vulns"`
	}
	vulnerable struct {
		ID       string    `json:"id"`
		Modified time.Time `json:"modified"`
		Fixed    string    `json:"fixed,omitempty"`
	}
)

// modules makes the index of modules. The entries carry no time of their own,
// so all have that of the database.
func modules(entries []entry, modified time.Time) []moduleIndex {
	byPath := make(map[string]map[string]vulnerable)
	for _, e := range entries {
		for _, a := range e.Affected {
			path := a.Package.Name
			if byPath[path] == nil {
				byPath[path] = make(map[string]vulnerable)
			}
			v := vulnerable{ID: e.ID, Modified: modified, Fixed: fix(a.Ranges)}
			// An entry may name a module twice; the later fix counts.
			if before, ok := byPath[path][e.ID]; ok {
				v.Fixed = laterFix(before.Fixed, v.Fixed)
			}
			byPath[path][e.ID] = v
		}
	}
	index := make([]moduleIndex, 0, len(byPath))
	for path, vulns := range byPath {
		m := moduleIndex{Path: path}
		for _, v := range vulns {
			m.Vulns = append(m.Vulns, v)
		}
		slices.SortFunc(m.Vulns, func(a, b vulnerable) int { return cmp.Compare(a.ID, b.ID) })
		index = append(index, m)
	}
	slices.SortFunc(index, func(a, b moduleIndex) int { return cmp.Compare(a.Path, b.Path) })
	return index
}

// laterFix returns the later of two fixes; none is later than all.
func laterFix(a, b string) string {
	if a == "" || b == "" {
		return ""
	}
	if semver.Compare("v"+a, "v"+b) > 0 {
		return a
	}
	return b
}

// writeDatabase writes the files that govulncheck reads.
func writeDatabase(dir string, entries []entry, modified time.Time) error {
	for _, d := range []string{"index", "ID"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for name, v := range map[string]any{"db.json": databaseIndex{modified}, "modules.json": modules(entries, modified)} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "index", name), b, 0o644); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if err := os.WriteFile(filepath.Join(dir, "ID", e.ID+".json"), e.raw, 0o644); err != nil {
			return err
		}
	}
	return nil
}
