package main

import (
	"strings"
	"testing"

	"machined/images/parts"
)

func TestSPDX(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"Apache", "                              Apache License\n   Version 2.0, January 2004\n", "Apache-2.0"},
		{"Mozilla", "Mozilla Public License Version 2.0\n==============", "MPL-2.0"},
		{"MIT", "Permission is hereby granted, free\nof charge, to any person ...\nThe above copyright notice and this", "MIT"},
		{"BSD with three clauses", "Redistribution and use in source and\nbinary forms ... may be used to endorse or\npromote products", "BSD-3-Clause"},
		{"BSD with two clauses", "Redistribution and use in source and binary forms, with or without", "BSD-2-Clause"},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software", "ISC"},
		{"a notice", "This product includes software", ""},
		{"nothing", "", ""},
	} {
		if got := spdx(c.text); got != c.want {
			t.Errorf("spdx(%s) = %q; want %q", c.name, got, c.want)
		}
	}
}

func TestWriteLicenses(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge ... The above copyright notice"
	const apache = "Apache License Version 2.0"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // expression; none for an error
		texts []string
	}{
		{"one", map[string]string{"LICENSE": mit, "main.go": "package main", "license.go": apache}, "MIT", []string{mit}},
		{"two and a notice", map[string]string{"LICENSE-MIT.txt": mit, "LICENSE": apache, "NOTICE": "by us"}, "Apache-2.0 AND MIT", []string{mit, apache, "by us"}},
		{"the same twice", map[string]string{"LICENSE": mit, "COPYING": mit}, "MIT", []string{mit}},
		{"deeper", map[string]string{"vendor/LICENSE": mit}, "", nil},
		{"unknown", map[string]string{"LICENSE": "All rights reserved."}, "", nil},
	} {
		dir := t.TempDir()
		writeTree(t, dir, c.files)
		var out strings.Builder
		got, err := writeLicenses(&out, parts.GoModule{Path: "example.org/m", Version: "v1.0.0"}, dir)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("writeLicenses(%s) = %q, %v; want %q", c.name, got, err, c.want)
		}
		for _, text := range c.texts {
			if !strings.Contains(out.String(), text) || !strings.Contains(out.String(), "example.org/m v1.0.0: ") {
				t.Errorf("writeLicenses(%s) wrote %q; want %q under the module's name", c.name, out.String(), text)
			}
		}
	}
}
