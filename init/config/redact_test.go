package config

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"none", "machine: {} # note\n", "machine: {} # note\n"},
		{"plain", "a:\n  psk: correct horse  # note\n  b: 1\n", "a:\n  psk: \"***\"  # note\n  b: 1\n"},
		{"password", "registries: [{host: a, username: b, password: c d}]\n", "registries: [{host: a, username: b, password: \"***\"}]\n"},
		{"environment", "env: {DB_PASSWORD: a, LANG: C, api_token: b, AWS_SECRET: c, SIGNING_KEY: d}\nsysctls: [{key: a, value: b}]\n",
			"env: {DB_PASSWORD: \"***\", LANG: C, api_token: \"***\", AWS_SECRET: \"***\", SIGNING_KEY: \"***\"}\nsysctls: [{key: a, value: b}]\n"},
		{"plain with hash", "psk: correct#horse # note\n", "psk: \"***\" # note\n"},
		{"quotes inside", "psk: 'it''s, \"so\"' # note\n", "psk: \"***\" # note\n"},
		{"escapes inside", `{psk: "a\"b\\", c: d}`, `{psk: "***", c: d}`},
		{"flow", "[{psk: one two}, {psk: three, x: ä}]\n", "[{psk: \"***\"}, {psk: \"***\", x: ä}]\n"},
		{"after letters of two bytes", "{ä: é, psk: secret, b: c}\n", "{ä: é, psk: \"***\", b: c}\n"},
		{"anchor", "a: {psk: &p secret}\nb: {psk: *p}\n", "a: {psk: &p \"***\"}\nb: {psk: *p}\n"},
		{"tag", "psk: !!str 12345678\n", "psk: !!str \"***\"\n"},
		{"quoted over lines", "psk: 'one\n  two'\nb: 1\n", "psk: \"***\"\nb: 1\n"},
		{"CRLF", "a: 1\r\npsk: secret\r\nb: 2\r\n", "a: 1\r\npsk: \"***\"\r\nb: 2\r\n"},
		{"null", "psk:\nb: 1\n", "psk:\nb: 1\n"},
		// From here on the layout is lost.
		{"literal", "# note\npsk: |\n  secret\nb:  1\n", "# note\npsk: \"***\"\nb: 1\n"},
		{"plain over lines", "psk: one\n  two\nb:  1\n", "psk: \"***\"\nb: 1\n"},
		{"not a word", "psk: [secret]\n", "psk: \"***\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Redact([]byte(tt.text))
			if err != nil || string(got) != tt.want {
				t.Errorf("Redact(%q) = %q, %v; want %q", tt.text, got, err, tt.want)
			}
		})
	}
}

// Text that cannot be parsed is not handed out as it is.
func TestRedactRefusesWhatItCannotRead(t *testing.T) {
	got, err := Redact([]byte("psk: secret\n  - x: ["))
	if got != nil || err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Redact = %q, %v; want an error without the secret", got, err)
	}
}
