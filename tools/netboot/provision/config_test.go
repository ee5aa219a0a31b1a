package provision

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/init/config"
	"machined/tools/netboot/registry"
)

// configs makes a netboot directory with these.
func configs(t *testing.T, files map[string]string) Configs {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, configsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, configsDir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Configs{Dir: dir}
}

func host(name string) string { return "machine: {hostname: " + name + "}\n" }

// TestConfig finds a board's own config by MAC, serial and UUID in this order, and
// the default after them.
func TestConfig(t *testing.T) {
	c := configs(t, map[string]string{
		"52-54-00-00-00-01.yaml": host("by-mac"), "B22FAAEB.yaml": host("by-serial"),
		"03020100-0504-0706-0809-0a0b0c0d0e0f.yaml": host("by-uuid"), "default.yaml": host("other"), "notes.txt": "none",
	})
	board := func(mac, serial, uuid string) registry.Board {
		return registry.Board{MAC: mac, Serial: serial, UUID: uuid}
	}
	for _, x := range []struct {
		b    registry.Board
		want string
		own  bool
	}{
		{board("52:54:00:00:00:01", "b22faaeb", "03020100-0504-0706-0809-0a0b0c0d0e0f"), "by-mac", true},
		{board("52:54:00:00:00:02", "b22faaeb", "03020100-0504-0706-0809-0a0b0c0d0e0f"), "by-serial", true},
		{board("52:54:00:00:00:02", "", "03020100-0504-0706-0809-0A0B0C0D0E0F"), "by-uuid", true},
		{board("52:54:00:00:00:02", "", "00010203-0405-0607-0809-0a0b0c0d0e0f"), "by-uuid", true}, // option 97, as it comes
		{board("52:54:00:00:00:02", "none", "00010203"), "other", false},
		{board("", "", ""), "other", false},
		{board("", "default", ""), "other", false},
		{board("", "../default", ""), "other", false},
	} {
		name, text, err := c.Config(x.b)
		if err != nil || string(text) != host(x.want) || name == "" {
			t.Errorf("Config(%+v) = %s, %q, %v; want %q", x.b, name, text, err, host(x.want))
		}
		if got := c.Known(x.b); got != x.own {
			t.Errorf("Known(%+v) = %v; want %v", x.b, got, x.own)
		}
	}
	if err := os.Remove(filepath.Join(c.dir(), "default.yaml")); err != nil {
		t.Fatal(err)
	}
	if name, text, err := c.Config(board("", "x", "")); name != "" || text != nil || err != nil {
		t.Errorf("Config() without a default = %q, %q, %v; want none", name, text, err)
	}
	if err := os.RemoveAll(c.dir()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Config(board("", "x", "")); err == nil || c.Known(board("", "x", "")) {
		t.Errorf("Config() without a directory = %v; want an error", err)
	}
}

// TestSerialForms: a Pi's firmware tells the last eight digits of the serial number
// that its device tree has. Of a PC's, all of it counts.
func TestSerialForms(t *testing.T) {
	c := configs(t, map[string]string{
		"b22faaeb.yaml": host("short"), "10000000ABCDEF01.yaml": host("long"), "20000000abcdef02.yaml": host("pc"), "default.yaml": host("other"),
	})
	for serial, want := range map[string]string{
		"b22faaeb": "short", "00000000B22FAAEB": "short", "abcdef01": "long", "10000000abcdef01": "long", "20000000abcdef01": "other",
		"abcdef02": "pc", "abcdef03": "other", "0abcdef01": "other", "": "other",
	} {
		b := registry.Board{MAC: "b8:27:eb:00:00:01", Serial: serial}
		_, text, err := c.Config(b)
		if err != nil || string(text) != host(want) {
			t.Errorf("Config() for the serial number %q = %q, %v; want %q", serial, text, err, host(want))
		}
		if got := c.Known(b); got != (want != "other") {
			t.Errorf("Known() for the serial number %q = %v", serial, got)
		}
	}
	for want, files := range map[string]map[string]string{
		"two forms of one serial number": {"b22faaeb.yaml": host("a"), "00000000b22faaeb.yaml": host("b")},
		"end alike":                      {"10000000b22faaeb.yaml": host("a"), "00000000b22faaeb.yaml": host("b")},
	} {
		if err := configs(t, files).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check() = %v; want %q", err, want)
		}
	}
}

// TestTemplate fills in all facts, and lets none of them say more.
func TestTemplate(t *testing.T) {
	c := configs(t, map[string]string{
		"default.yaml": "# {{.MAC}} {{.Serial}} {{.UUID}} {{.Board}} {{.Address}}\nmachine:\n  hostname: node-{{.ID}}\n",
	})
	b := registry.Board{ID: "52-54-00-00-00-01", MAC: "52:54:00:00:00:01", Serial: "AB\n  evil: true #{{", UUID: "1-2: [", Name: "x86_64-uefi", Address: "192.0.2.9"}
	_, text, err := c.Config(b)
	if want := "# 52:54:00:00:00:01 abevil-true 1-2- x86_64-uefi 192.0.2.9\nmachine:\n  hostname: node-52-54-00-00-00-01\n"; err != nil || string(text) != want {
		t.Errorf("Config() = %q, %v; want %q", text, err, want)
	}
	b.MAC = "no: mac"
	if _, text, err = c.Config(b); err != nil || !bytes.HasPrefix(text, []byte("#  abevil-true")) {
		t.Errorf("Config() = %q, %v for a MAC that is none; want it empty", text, err)
	}
	if text, err := Example("x.yaml", []byte(host("{{.Serial}}"))); err != nil || string(text) != host("10000000abcdef01") {
		t.Errorf("Example() = %q, %v", text, err)
	}
}

// TestCheck says all that is wrong at once.
func TestCheck(t *testing.T) {
	c := configs(t, map[string]string{
		"default.yaml": host("node-{{.ID}}"), "a.yaml": "machine: {hostnam: x}\n", "b.yaml": host("{{.Nothing}}"), "c.yaml": host("{{"),
		"d.yaml": "{{range $i := .ID}}{{end}}{{define \"x\"}}" + strings.Repeat("y", 1000) + "{{template \"x\"}}{{end}}{{template \"x\"}}",
		"e.yaml": "# " + strings.Repeat("z", maxConfig) + "\n",
	})
	err := c.Check()
	for _, want := range []string{"a.yaml", "b.yaml", "c.yaml", "d.yaml", "e.yaml"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check() does not name %s: %.2000v", want, err)
		}
	}
	if strings.Contains(err.Error(), "default.yaml") {
		t.Errorf("Check() faults the default: %v", err)
	}
	twice := configs(t, map[string]string{"AB.yaml": host("a"), "ab.yaml": host("b")})
	if err := twice.Check(); err == nil || !strings.Contains(err.Error(), "for the same board") {
		t.Errorf("Check() = %v with two configs of a board; want both named", err)
	}
	if err := (Configs{Dir: t.TempDir()}).Check(); err == nil {
		t.Error("Check() without a directory has no error")
	}
}

// FuzzFacts: whatever a board says of itself, the config is the owner's, with one
// word more.
func FuzzFacts(f *testing.F) {
	f.Add("52:54:00:00:00:01", "b22faaeb", "00010203-0405-0607-0809-0a0b0c0d0e0f", "x86_64-uefi", "192.0.2.9")
	f.Add("a: b", "x\n  sysctls: {a: b}\n", "{{.MAC}}", "\"'", "#\x00\xff")
	source := []byte("machine:\n  hostname: node\n  sysctls: [{key: kernel.domainname, value: a{{.ID}}b{{.MAC}}c{{.Serial}}d{{.UUID}}e{{.Board}}f{{.Address}}}]\n")
	f.Fuzz(func(t *testing.T, mac, serial, uuid, board, address string) {
		facts := factsOf(registry.Board{ID: registry.Name(mac), MAC: mac, Serial: serial, UUID: uuid, Name: board, Address: address})
		text, err := render("default.yaml", source, facts)
		if err != nil {
			t.Fatalf("%+v: %v", facts, err)
		}
		c, _, err := config.Parse("default.yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		if c.Machine.Hostname != "node" || bytes.Count(text, []byte("\n")) != 3 {
			t.Errorf("the config is %q", text)
		}
		_ = swapped(uuid)
	})
}
