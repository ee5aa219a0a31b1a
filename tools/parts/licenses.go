package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
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

// linkedModules lists the Go modules in a program and the standard library,
// and adds a part with all their licences.
func (c *collector) linkedModules(component, program string) ([]parts.GoModule, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("list the modules in %s: %w", program, err)
	}
	goroot, err := output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules := []parts.GoModule{{Path: "stdlib", Version: info.GoVersion}}
	dirs := map[string]string{"stdlib": goroot}
	for _, d := range info.Deps {
		if dirs[d.Path], _, err = c.module(d.Path); err != nil {
			return nil, err
		}
		modules = append(modules, parts.GoModule{Path: d.Path, Version: d.Version})
	}
	slices.SortFunc(modules, func(a, b parts.GoModule) int { return cmp.Compare(a.Path, b.Path) })
	var all bytes.Buffer
	for i, m := range modules {
		if modules[i].License, err = writeLicenses(&all, m, dirs[m.Path]); err != nil {
			return nil, fmt.Errorf("find the licence of Go module %s: %w", m.Path, err)
		}
	}
	return modules, c.make(component, "licenses/"+component+"/LICENSES", func(w io.Writer) error {
		_, err := w.Write(all.Bytes())
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
