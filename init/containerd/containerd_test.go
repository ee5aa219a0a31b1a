package containerd

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is rendered (-update writes it):\n%s", path, got)
	}
}

func TestTOML(t *testing.T) {
	golden(t, "config.toml", Config{}.TOML())
	got := string(Config{Downloads: 5, LogLevel: "debug"}.TOML())
	if !strings.Contains(got, "max_concurrent_downloads = 5\n") || !strings.Contains(got, "level = \"debug\"\n") {
		t.Errorf("the config lacks what was asked for:\n%s", got)
	}
}

// TestAccepted has the slot's containerd judge the configuration: every key is
// one that something reads.
func TestAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("builds containerd; left out by -short")
	}
	dir := t.TempDir()
	program, config := filepath.Join(dir, "containerd"), filepath.Join(dir, "config.toml")
	if err := os.WriteFile(config, Config{}.TOML(), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", program, "./containerd")
	build.Dir = "../../runtime"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build containerd: %v\n%s", err, out)
	}
	if out, err := exec.Command(program, "check", "--config", config).CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("containerd check = %v: %s", err, out)
	}
}

func TestNetwork(t *testing.T) {
	got, err := Network(netip.MustParsePrefix("10.88.7.1/16"))
	if err != nil || !json.Valid(got) {
		t.Fatalf("Network() = %s, %v; want JSON", got, err)
	}
	golden(t, "net.conflist", got)
	for _, bad := range []netip.Prefix{{}, netip.MustParsePrefix("fd00::/64"), netip.MustParsePrefix("10.0.0.0/30")} {
		if _, err := Network(bad); err == nil || !strings.Contains(err.Error(), "no IPv4 subnet") {
			t.Errorf("Network(%v) = %v; want it refused", bad, err)
		}
	}
}

func TestHosts(t *testing.T) {
	got, err := Hosts([]Mirror{
		{Registry: "docker.io", Endpoints: []string{"https://mirror.example/v2", "http://10.0.0.1:5000"}},
		{Registry: "registry.example:5000", Endpoints: []string{"https://only.example"}, SkipFallback: true},
		{Registry: "*", Endpoints: []string{`https://a.example/"]` + "\n[x]"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, name := range []string{"docker.io/hosts.toml", "registry.example:5000/hosts.toml", "_default/hosts.toml"} {
		all.WriteString("# " + name + "\n")
		all.Write(got[name])
	}
	golden(t, "hosts.toml", all.Bytes())
	for _, bad := range []string{"", "a/b", "..", ".hidden", "a\x00"} {
		if _, err := Hosts([]Mirror{{Registry: bad}}); err == nil || !strings.Contains(err.Error(), "no host") {
			t.Errorf("Hosts(%q) = %v; want it refused", bad, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		memory      uint64
		limit, gogc string
	}{
		{0, "33554432", "50"},
		{411844 << 10, "33554432", "50"},
		{640 << 20, "33554432", "50"},
		{1 << 30, "67108864", "75"},
		{4 << 30, "134217728", "100"},
	} {
		want := []string{"GOMEMLIMIT=" + c.limit, "GOGC=" + c.gogc, "PATH=/usr/bin:/usr/sbin"}
		if got := Environment(c.memory); !slices.Equal(got, want) {
			t.Errorf("Environment(%d) = %q; want %q", c.memory, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"":             `""`,
		`a"b\c`:        `"a\"b\\c"`,
		"a\nb\tc\x7f":  `"a\u000Ab\u0009c\u007F"`,
		"gruß":         `"gruß"`,
		"bad \xff end": "\"bad \uFFFD end\"",
	} {
		if got := quote(s); got != want {
			t.Errorf("quote(%q) = %s; want %s", s, got, want)
		}
	}
}
