package config

import (
	"strings"
	"testing"
)

func TestMerge(t *testing.T) {
	for _, tt := range []struct{ name, base, patch, want string }{
		{"nothing", "a: 1\n", "{}", "a: 1\n"},
		{"into empty", "{}", "a: {b: 1}", "a: {b: 1}\n"},
		{"scalar", "a: 1 # one\nb: 2\n", "b: 3", "a: 1 # one\nb: 3\n"},
		{"nested", "a:\n  b: 1\n  c: 2\n", "a: {c: 3, d: 4}", "a:\n  b: 1\n  c: 3\n  d: 4\n"},
		{"delete", "a: 1\nb: 2\n", "a: null\nc: ~\nd: {e: null}", "b: 2\nd: {}\n"},
		{"type changes", "a: [1]\n", "a: {b: 1}", "a: {b: 1}\n"},
		{"list replaces", "a: [1, 2]\n", "a: [3]", "a: [3]\n"},
		{
			"list by name", "l:\n- {name: a, x: 1}\n- {name: b, x: 2}\n", "l:\n- {name: b, y: 3}\n- {name: c}\n- {name: a, x: null}",
			"l:\n- name: a\n- name: b\n  x: 2\n  y: 3\n- {name: c}\n",
		},
		{"list by id", "l: [{id: a, x: 1}]", "l: [{id: a, x: 2}]", "l:\n- id: a\n  x: 2\n"},
		{"list by key", "l: [{key: a, value: 1}]", "l: [{key: a, value: 2}]", "l:\n- key: a\n  value: 2\n"},
		{"list without a common key", "l: [{id: a}]", "l: [{url: b}]", "l: [{url: b}]\n"},
		{"a change does not show at aliases", "a: &x {p: 1}\nb: *x\n", "a: {p: 2}", "a:\n  p: 2\nb: {p: 1}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Merge([]byte(tt.base), []byte(tt.patch))
			if err != nil || string(got) != tt.want {
				t.Errorf("Merge(%q, %q) = %q, %v; want %q", tt.base, tt.patch, got, err, tt.want)
			}
		})
	}
}

func TestMergeErrors(t *testing.T) {
	for _, tt := range []struct{ name, base, patch, want string }{
		{"bad base", "[", "{}", "read the config that the patch is for: base config:1:2: "},
		{"bad patch", "{}", "a: 1\na: 2\n", "read the config patch: patch:2:1: a: duplicate field; the first is on line 1"},
		{"empty patch", "{}", "", "read the config patch: patch: the file is empty"},
		{"endless alias", "{}", "a: &a [*a]", "read the config patch: patch:1:4: a: aliases expand to more than"},
	} {
		_, err := Merge([]byte(tt.base), []byte(tt.patch))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: Merge(%q, %q): error %v; want %s...", tt.name, tt.base, tt.patch, err, tt.want)
		}
	}
}

// The result of a patch to a real config is a config.
func TestMergeThenParse(t *testing.T) {
	patch := "machine:\n  install: null\n  services:\n  - id: kubelet\n    critical: true\n  - id: log\n    command: [/bin/log]\n"
	out, err := Merge(readTestdata(t, "kubelet.yaml"), []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := Parse("merged", out)
	if err != nil {
		t.Fatalf("Parse(%s) = %v", out, err)
	}
	s := c.Machine.Services
	if c.Machine.Install != nil || len(s) != 2 || !s[0].Critical || s[0].DependsOn[0] != ContainerdID || s[1].ID != "log" {
		t.Errorf("merged config is %s", out)
	}
}
