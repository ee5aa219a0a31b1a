package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{
		"", "{}", "---\n...\n", "machine: {}\n---\n", "a: &a [*a]", "machine: &m {network: *m}",
		"machine: {network: {interfaces: [{wifi: {ssid: a, psk: &p 'it''s a secret'}}]}}",
		"psk: |\n  a\n  b\n", "psk: &x !!str a\nb: *x\n", "\ufeffmachine:\r\n  hostname: a\r\n", "<<: {a: b}", "? [a]\n: b",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, warnings, err := Parse("f", data)
		checkPlaces(t, data, warnings)
		if err != nil {
			var faults Errors
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("error %v is not Errors", err)
			}
			checkPlaces(t, data, faults)
		} else {
			again, againWarnings, err := Parse("f", data)
			if err != nil || !reflect.DeepEqual(c, again) || !reflect.DeepEqual(warnings, againWarnings) {
				t.Fatalf("parsed twice: %+v, then %+v, %v", c, again, err)
			}
			if got := StartOrder(c.Machine.Services); len(got) != len(c.Machine.Services) {
				t.Fatalf("StartOrder has %d of %d services", len(got), len(c.Machine.Services))
			}
		}
		checkRedact(t, data, c)
		checkMerge(t, data)
	})
}

// checkPlaces asks that each place is in the file, or right behind a line's end.
func checkPlaces(t *testing.T, data []byte, list []Error) {
	t.Helper()
	// The line ends of YAML 1.1, which the library counts.
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(string(data))
	rows := strings.Split(text, "\n")
	for _, e := range list {
		if strings.Contains(e.Error(), "\n") {
			t.Fatalf("%q has more than one line", e.Error())
		}
		if e.Line == 0 {
			continue
		}
		if e.Line < 1 || e.Line > len(rows) || e.Column < 1 || e.Column > utf8.RuneCountInString(rows[e.Line-1])+1 {
			t.Fatalf("%v: no such place in %q", e, data)
		}
	}
}

func checkRedact(t *testing.T, data []byte, c *Config) {
	t.Helper()
	out, err := Redact(data)
	if err != nil {
		if c != nil {
			t.Fatalf("Redact of a valid config = %v", err)
		}
		return
	}
	root, err := document("f", out)
	if err != nil {
		t.Fatalf("Redact(%q) = %q, which is not YAML: %v", data, out, err)
	}
	for _, n := range secrets(root) {
		if n.Value != redacted {
			t.Fatalf("Redact(%q) = %q, which has a secret", data, out)
		}
	}
	if c == nil {
		return
	}
	for _, i := range c.Machine.Network.Interfaces {
		// A secret as unlike the rest of a config as a real one.
		if i.Wifi != nil && strings.HasPrefix(i.Wifi.PSK, "correct horse") && bytes.Contains(bytes.SplitN(out, []byte("#"), 2)[0], []byte(i.Wifi.PSK)) {
			t.Fatalf("Redact(%q) = %q, which has %q", data, out, i.Wifi.PSK)
		}
	}
}

func checkMerge(t *testing.T, data []byte) {
	t.Helper()
	out, err := Merge([]byte("machine: {hostname: a}\n"), data)
	if err != nil {
		return
	}
	if _, err := document("f", out); err != nil && len(out) < maxBytes {
		t.Fatalf("Merge(%q) = %q, which is not YAML: %v", data, out, err)
	}
}
