package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Whatever a node says comes back from -o json and -o yaml as it was.
func TestTreeRoundTrip(t *testing.T) {
	for _, s := range []string{
		"", " ", "plain", "true", "null", "~", "12", "0x1f", "1e3", "2026-05-01", "- a", "a: b", "# c", "&a", "*a", "!x", "%", "@", "`",
		"a\nb", "a\nb\n", "a\n\n\n", "\na", "  lead\nx\n", "\ttab\nx", "x \ny ", "a\r\nb", "a\rb", "\x00", "\x1b[31m", "\u2028", "\ufeffx\ny", "é\n", "---\nx", "...\n",
		"'", "\"", "\\", "<&>", "a #b\nc", "key: |\n  x\n",
	} {
		tree := object{{"a" + s, s}, {"list", []object{{{"x", s}}}}}
		for out, decode := range map[format]func([]byte, any) error{
			formatJSON: json.Unmarshal,
			formatYAML: func(b []byte, v any) error { return yaml.Load(b, v) },
		} {
			var b bytes.Buffer
			if err := writeTree(&b, out, tree); err != nil {
				t.Errorf("writeTree(%s, %q) = %v", out, s, err)
				continue
			}
			got := map[string]any{}
			if err := decode(b.Bytes(), &got); err != nil {
				t.Errorf("%s of %q does not parse: %v\n%s", out, s, err, b.String())
				continue
			}
			list, _ := got["list"].([]any)
			if got["a"+s] != s || len(list) != 1 || list[0].(map[string]any)["x"] != s {
				t.Errorf("%s of %q comes back as %q\n%s", out, s, got, b.String())
			}
		}
	}
}

func TestYAMLForOldReaders(t *testing.T) {
	for s, want := range map[string]string{
		"yes": "k: 'yes'\n", "Off": "k: 'Off'\n", "52:54:00:12:34:56": "k: '52:54:00:12:34:56'\n", "true": "k: 'true'\n", "012": "k: '012'\n",
		"02:00:00:00:00:0a": "k: 02:00:00:00:00:0a\n", "10.0.0.5": "k: 10.0.0.5\n", "yesterday": "k: yesterday\n",
	} {
		var b bytes.Buffer
		if err := writeTree(&b, formatYAML, object{{"k", s}}); err != nil || b.String() != want {
			t.Errorf("writeTree(%q) = %q, %v; want %q", s, b.String(), err, want)
		}
	}
}

func TestWord(t *testing.T) {
	for s, want := range map[string]string{
		"sda": "sda", "/dev/sda": "/dev/sda", "a=b": "a=b", `a\b`: `a\b`, "é": "é",
		"": `""`, "a b": `"a b"`, `a"b`: `"a\"b"`, "a\nb": `"a\nb"`, "\x1b[31m": `"\x1b[31m"`, "\u202e": `"\u202e"`, "\u00a0": `"\u00a0"`,
	} {
		if got := word(s); got != want {
			t.Errorf("word(%q) = %s; want %s", s, got, want)
		}
	}
}
