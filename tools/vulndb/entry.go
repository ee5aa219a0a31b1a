package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// entry is what the indexes need of an entry (OSV schema), and its bytes as
// they are.
type entry struct {
	ID       string     `json:"id"`
	Affected []affected `json:"affected"`
	raw      []byte
}

type affected struct {
	Package struct {
		Name string `json:"name"` // module path
	} `json:"package"`
	Ranges []versionRange `json:"ranges"`
}

type versionRange struct {
	Type   string  `json:"type"` // SEMVER
	Events []event `json:"events"`
}

// event is one bound of a range: a version without its v.
type event struct {
	Introduced string `json:"introduced"`
	Fixed      string `json:"fixed"`
}

// readEntries reads the entries in dir, in the order of their names.
func readEntries(dir string) ([]entry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		// An empty database would let everything pass.
		return nil, fmt.Errorf("read the entries in %s: there are none", dir)
	}
	var entries []entry
	for _, f := range files {
		var e entry
		if e.raw, err = os.ReadFile(f); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(e.raw, &e); err != nil {
			return nil, fmt.Errorf("read %s: %w", f, err)
		}
		if want := strings.TrimSuffix(filepath.Base(f), ".json"); e.ID != want {
			return nil, fmt.Errorf("read %s: it has the id %q; want %q", f, e.ID, want)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// fix returns the version from which on the module is free of the
// vulnerability for good, and "" where there is none. govulncheck passes over
// what is fixed in a module's version, so too low an answer would hide a
// vulnerability: a doubt is "".
func fix(ranges []versionRange) string {
	fixed := ""
	for _, r := range ranges {
		events := slices.Clone(r.Events)
		slices.SortStableFunc(events, func(a, b event) int { return semver.Compare(a.version(), b.version()) })
		if r.Type != "SEMVER" || len(events) == 0 {
			return ""
		}
		last := events[len(events)-1]
		if last.Fixed == "" || !semver.IsValid(last.version()) {
			return ""
		}
		if fixed == "" || semver.Compare(last.version(), "v"+fixed) > 0 {
			fixed = last.Fixed
		}
	}
	return fixed
}

// version is the event's version with the v that package semver wants. "0"
// means from the beginning.
func (e event) version() string {
	if e.Introduced != "" {
		if e.Introduced == "0" {
			return "" // sorts before every version
		}
		return "v" + e.Introduced
	}
	return "v" + e.Fixed
}
