package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"machined/images/parts"
)

// licenses takes the texts of a component's licences, which have to go where
// its files go.
func (c *collector) licenses(component, dir string, files ...string) error {
	for _, f := range files {
		if err := c.add(component, "licenses/"+component+"/"+f, filepath.Join(dir, f)); err != nil {
			return err
		}
	}
	return nil
}

// linkedModules lists the Go modules in a program and the standard library, and
// returns the text of all their licences. The program's module is in dir.
func (c *collector) linkedModules(program, dir string) ([]parts.GoModule, []byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, nil, fmt.Errorf("list the modules in %s: %w", program, err)
	}
	goroot, err := outputIn(dir, "go", "env", "GOROOT")
	if err != nil {
		return nil, nil, err
	}
	modules := []parts.GoModule{{Path: "stdlib", Version: info.GoVersion}}
	// The program's own module counts where it is another's.
	for _, d := range append(info.Deps, &info.Main) {
		if d.Version != "" && d.Version != "(devel)" {
			modules = append(modules, parts.GoModule{Path: d.Path, Version: d.Version})
		}
	}
	slices.SortFunc(modules, func(a, b parts.GoModule) int { return cmp.Compare(a.Path, b.Path) })
	dirs, err := moduleDirs(dir, modules)
	if err != nil {
		return nil, nil, err
	}
	dirs["stdlib"] = goroot
	var all bytes.Buffer
	for i, m := range modules {
		if modules[i].License, err = writeLicenses(&all, m, dirs[m.Path]); err != nil {
			return nil, nil, fmt.Errorf("find the licence of Go module %s: %w", m.Path, err)
		}
	}
	return modules, all.Bytes(), nil
}

// moduleDirs returns where the module cache has the modules, by path.
func moduleDirs(dir string, modules []parts.GoModule) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		if m.Path != "stdlib" {
			args = append(args, m.Path+"@"+m.Version)
		}
	}
	dirs := make(map[string]string)
	if len(args) == 3 {
		return dirs, nil
	}
	out, err := outputIn(dir, "go", args...)
	if err != nil {
		return nil, err
	}
	for list := json.NewDecoder(strings.NewReader(out)); list.More(); {
		var m struct{ Path, Dir string }
		if err := list.Decode(&m); err != nil {
			return nil, fmt.Errorf("read what go mod download printed: %w", err)
		}
		dirs[m.Path] = m.Dir
	}
	return dirs, nil
}

// text adds a part of some bytes.
func (c *collector) text(component, name string, contents []byte) error {
	return c.make(component, name, func(w io.Writer) error {
		_, err := w.Write(contents)
		return err
	})
}

// writeLicenses writes the licences and notices in a module's directory, and
// returns their SPDX expression.
func writeLicenses(w io.Writer, m parts.GoModule, dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !isLicense(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		if id := spdx(string(text)); id != "" && !slices.Contains(found, id) {
			found = append(found, id)
		}
		fmt.Fprintf(w, "==== %s %s: %s ====\n\n%s\n\n", m.Path, m.Version, e.Name(), bytes.TrimSpace(text))
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no text in %s is a licence that is known here", dir)
	}
	return strings.Join(found, " AND "), nil
}

func isLicense(file string) bool {
	name := strings.ToUpper(file)
	for _, prefix := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"} {
		if strings.HasPrefix(name, prefix) && filepath.Ext(name) != ".GO" {
			return true
		}
	}
	return false
}

// spdx returns the SPDX identifier of a licence's text, and "" for other
// texts. It knows what the modules of a static program come under.
func spdx(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case has("Apache License Version 2.0"):
		return "Apache-2.0"
	case has("Mozilla Public License Version 2.0"):
		return "MPL-2.0"
	case has("Permission is hereby granted, free of charge") && has("The above copyright notice"):
		return "MIT"
	case has("Redistribution and use in source and binary forms") && has("endorse or promote"):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("Permission to use, copy, modify, and/or distribute"), has("Permission to use, copy, modify, and distribute"):
		return "ISC"
	}
	return ""
}
