package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// golden compares got with a file in testdata. UPDATE_GOLDEN=1 rewrites it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func readTestdata(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParseGolden(t *testing.T) {
	for _, name := range []string{"kubelet", "full"} {
		c, warnings, err := Parse(name+".yaml", readTestdata(t, name+".yaml"))
		if err != nil {
			t.Errorf("Parse(%s.yaml) = %v; want no error", name, err)
			continue
		}
		text, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".golden", string(text)+"\n"+strings.Join(warnings.Lines(), "\n")+"\n")
	}
}

// The fields are as the founding example has them.
func TestFoundingExample(t *testing.T) {
	c, _, err := Parse("kubelet.yaml", readTestdata(t, "kubelet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := Service{
		ID:        "kubelet",
		Command:   []string{"/usr/bin/kubelet", "--node-name", "node-1"},
		DependsOn: []string{ContainerdID},
		Restart:   RestartAlways,
		StopGrace: 10e9, NoNewPrivs: true,
	}
	if got := c.Machine.Services; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("services = %+v; want %+v", got, want)
	}
}

// A file with many faults costs one round of correction, not one for each.
func TestManyErrorsAtOnce(t *testing.T) {
	c, _, err := Parse("many.yaml", readTestdata(t, "many.yaml"))
	if c != nil || err == nil {
		t.Fatalf("Parse(many.yaml) = %v, %v; want an error", c, err)
	}
	golden(t, "many.golden", err.Error()+"\n")
	var faults Errors
	if !errors.As(err, &faults) {
		t.Fatalf("error is %T; want Errors", err)
	}
	for i := 1; i < len(faults); i++ {
		a, b := faults[i-1], faults[i]
		if a.Line > b.Line || (a.Line == b.Line && a.Column > b.Column) {
			t.Errorf("error %d at %d:%d comes after %d:%d; want order of place", i, b.Line, b.Column, a.Line, a.Column)
		}
	}
}

func TestEmptyMappingIsDefault(t *testing.T) {
	for _, text := range []string{"{}", "machine: {}\n", "machine:\n", "machine:\n  network:\n  services:\n", "--- {}\n...\n"} {
		c, warnings, err := Parse("x", []byte(text))
		if err != nil || len(warnings) != 0 || !reflect.DeepEqual(c, Default()) {
			t.Errorf("Parse(%q) = %+v, %v, %v; want the default", text, c, warnings, err)
		}
	}
}

func TestAnchorsWork(t *testing.T) {
	const text = `machine:
  services:
    - {id: a, command: &cmd [/bin/a, x], env: &env {K: v}}
    - {id: b, command: *cmd, env: *env}
`
	c, _, err := Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Machine.Services[0], c.Machine.Services[1]
	if !reflect.DeepEqual(a.Command, b.Command) || !reflect.DeepEqual(a.Env, b.Env) {
		t.Errorf("services = %+v, %+v; want the same command and env", a, b)
	}
}

// Each warning's place is that of the field's name.
func TestWarnings(t *testing.T) {
	const text = "machine:\n  hostname: a\n  services:\n  - id: a\n    command: [/a]\n    critical: true\n    gates: [time]\n  network: {interfaces: [{name: wlan0, wifi: {ssid: a, psk: abcdefgh}}]}\n  time: {servers: [a.example]}\n  runtime: {disabled: true}\n  pods:\n"
	_, warnings, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"f.yaml:8:40: machine.network.interfaces[0].wifi: this version does not act on this field; it has no effect",
	}
	if got := warnings.Lines(); !reflect.DeepEqual(got, want) {
		t.Errorf("warnings = %q; want %q", got, want)
	}
}

// A line of the table that names no field would never be missed.
func TestTableNamesRealFields(t *testing.T) {
	_, warnings, err := Parse("full.yaml", readTestdata(t, "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, w := range warnings {
		seen[pattern(w.Path)] = true
	}
	source, err := os.ReadFile("unsupported.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Split(string(source), `"`) {
		if strings.HasPrefix(word, "machine.") && !seen[word] {
			t.Errorf("notActedOn has %q, which is no field of full.yaml", word)
		}
	}
}

func TestDiskSelector(t *testing.T) {
	c, _, err := Parse("f", []byte(`machine: {install: {wipe: true, disk: {size: ">= 8GiB, <= 64GiB", model: "Samsung*", serial: S1, bus: usb}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := DiskSelector{Model: "Samsung*", Serial: "S1", Bus: "usb", MinSize: 8 << 30, MaxSize: 64 << 30}
	if i := c.Machine.Install; i == nil || i.Selector == nil || *i.Selector != want || i.Disk != "" || !i.Wipe {
		t.Errorf("install is %+v; want the selector %+v", i, want)
	}
}
