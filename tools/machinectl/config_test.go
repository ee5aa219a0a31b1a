package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"machined/api/apitest"
	"machined/api/pki"
)

func TestContexts(t *testing.T) {
	l := newLab(t)
	bundle := func(name string) string { return filepath.Join(l.dir, name) }
	for _, step := range []struct {
		args []string
		want result
	}{
		{[]string{"config", "path"}, result{"$DIR/config/config.yaml\n", "", 0}},
		{[]string{"config", "list"}, result{"", "no contexts; `machinectl config merge` makes one\n", 0}},
		{[]string{"config", "list", "-o", "json"}, result{"{\n  \"current\": \"\",\n  \"contexts\": []\n}\n", "", 0}},
		{[]string{"config", "use", "lab"}, result{"", "machinectl: there is no context \"lab\", nor any other; `machinectl config merge` makes one\n", 1}},
		{[]string{"config", "merge", bundle("reader"), "--name", "lab", "--endpoint", "https://" + l.addr}, result{"added context lab, the current one\n", "", 0}},
		{[]string{"config", "merge", bundle("operator"), "--name", "op", "--endpoint", l.addr, "--server-name", "board-1"}, result{"added context op\n", "", 0}},
		{[]string{"config", "use", "bogus"}, result{"", "machinectl: there is no context \"bogus\"; there are lab, op\n", 1}},
		{[]string{"reboot", "--context", "op"}, result{"reboot requested\n", "", 0}},
		{[]string{"config", "use", "op"}, result{"current context: op ($ADDR)\n", "", 0}},
		{[]string{"shutdown"}, result{"shutdown requested\n", "", 0}},
		// The same bundle again, for another address.
		{[]string{"config", "merge", bundle("reader"), "--name", "lab", "--endpoint", "10.0.0.5"}, result{"updated context lab\n", "", 0}},
		// Another bundle; the endpoint and the server name stay.
		{[]string{"config", "merge", bundle("admin"), "--name", "op"}, result{"updated context op, the current one\n", "", 0}},
		{[]string{"get", "links", "lo"}, result{"lo   name=lo up=true mtu=65536 mac=00:00:00:00:00:00 carrier=false present=true\n", "", 0}},
		{[]string{"config", "merge", bundle("admin"), "--name", "op", "--endpoint", "op.example:50001", "--server-name", "board-1"}, result{"updated context op, the current one\n", "", 0}},
	} {
		if got := l.run(step.args...); got != step.want {
			t.Errorf("machinectl %q = %+v\nwant %+v", step.args, got, step.want)
		}
	}
	for _, f := range []string{"text", "table", "json", "yaml"} {
		golden(t, "contexts."+f, l.run("config", "list", "-o", f).withoutHashes().stdout)
	}
	l.checkFiles(t)
}

// withoutHashes takes the hashes out of the names of bundle directories. They
// are as long in each run, so that columns stay.
func (r result) withoutHashes() result {
	for _, name := range []string{"lab-", "op-"} {
		parts := strings.Split(r.stdout, "/bundles/"+name)
		for i := range parts[1:] {
			parts[i+1] = "HASH" + parts[i+1][12:]
		}
		r.stdout = strings.Join(parts, "/bundles/"+name)
	}
	return r
}

// checkFiles checks that there is one bundle a context, and that all is private.
func (l *lab) checkFiles(t *testing.T) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(l.dir, "config"), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files = append(files, d.Name())
		}
		if strings.HasSuffix(path, ".crt") {
			want = 0o644
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v; want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	want := "ca.crt client.crt client.key ca.crt client.crt client.key config.yaml"
	if got := strings.Join(files, " "); err != nil || got != want {
		t.Errorf("files = %s, %v; want %s", got, err, want)
	}
}

// Flags win over the environment, and that over the current context.
func TestPrecedence(t *testing.T) {
	l := newLab(t)
	merge := func(bundle, name, endpoint string) {
		t.Helper()
		if got := l.run("config", "merge", filepath.Join(l.dir, bundle), "--name", name, "--endpoint", endpoint, "--server-name", "board-1"); got.code != 0 {
			t.Fatalf("config merge = %+v", got)
		}
	}
	merge("reader", "current", "current:1")
	merge("reader", "other", "other:1")
	for _, tt := range []struct {
		name           string
		bundle, node   string // environment
		flags          nodeFlags
		wantBundle     string // its beginning
		wantNode, want string // endpoint, server name
	}{
		{"context", "", "", nodeFlags{}, filepath.Join(l.dir, "config", "bundles", "current-"), "current:1", "board-1"},
		{"environment", "eb", "en", nodeFlags{}, "eb", "en", ""},
		{"environment and context", "", "en", nodeFlags{}, filepath.Join(l.dir, "config", "bundles", "current-"), "en", ""},
		{"flags", "eb", "en", nodeFlags{target: target{bundle: "fb", endpoint: "fn", serverName: "fs"}}, "fb", "fn", "fs"},
		{"flag and environment", "eb", "en", nodeFlags{target: target{endpoint: "fn"}}, "eb", "fn", ""},
		{"server name and context", "", "", nodeFlags{target: target{serverName: "fs"}}, filepath.Join(l.dir, "config", "bundles", "current-"), "current:1", "fs"},
		{"--context", "eb", "en", nodeFlags{context: "other"}, filepath.Join(l.dir, "config", "bundles", "other-"), "other:1", "board-1"},
		{"--context and --endpoint", "eb", "en", nodeFlags{target: target{endpoint: "fn"}, context: "other"}, filepath.Join(l.dir, "config", "bundles", "other-"), "fn", ""},
	} {
		t.Setenv(bundleVariable, tt.bundle)
		t.Setenv(endpointVariable, tt.node)
		got, err := tt.flags.resolve()
		if err != nil || !strings.HasPrefix(got.bundle, tt.wantBundle) || got.endpoint != tt.wantNode || got.serverName != tt.want {
			t.Errorf("%s: resolve = %+v, %v; want %s, %s, %q", tt.name, got, err, tt.wantBundle, tt.wantNode, tt.want)
		}
	}
}

func TestNoNode(t *testing.T) {
	l := newLab(t)
	const how = "or make a context with `machinectl config merge BUNDLE_DIR --name NAME --endpoint https://HOST:50000`\n"
	for _, tt := range []struct {
		args []string
		want result
	}{
		{[]string{"reboot"}, result{"", "machinectl: no node is named: give --bundle DIR and --endpoint https://HOST:50000, " + how, 2}},
		{[]string{"reboot", "--endpoint", "node"}, result{"", "machinectl: no bundle is named for node: give --bundle DIR, " + how, 2}},
		{[]string{"reboot", "--bundle", "b"}, result{"", "machinectl: no node is named for the bundle b: give --endpoint https://HOST:50000, " + how, 2}},
		{[]string{"reboot", "--context", "x"}, result{"", "machinectl: there is no context \"x\", nor any other; `machinectl config merge` makes one\n", 1}},
	} {
		if got := l.run(tt.args...); got != tt.want {
			t.Errorf("machinectl %q = %+v\nwant %+v", tt.args, got, tt.want)
		}
	}
}

// What is refused leaves no trace.
func TestMergeRefuses(t *testing.T) {
	l := newLab(t)
	partial := l.write(t, "partial", apitest.NewBundle(t, l.ca, time.Now(), time.Hour, pki.RoleReader))
	if err := os.Remove(filepath.Join(partial, pki.ClientKeyFile)); err != nil {
		t.Fatal(err)
	}
	expired := l.write(t, "expired", apitest.NewBundle(t, l.ca, time.Now().Add(-48*time.Hour), time.Hour, pki.RoleReader))
	for _, tt := range []struct{ dir, endpoint, want string }{
		{partial, "node", "machinectl: the PKI in $DIR/partial is partial: it has ca.crt, client.crt and lacks client.key; restore what is missing, or remove the rest to begin anew\n"},
		{l.dir, "node", "machinectl: load ca.crt, client.crt, client.key from $DIR: no PKI here (file does not exist); "},
		{expired, "node", "machinectl: connect to node:50000: the client certificate $DIR/expired/client.crt expired on "},
		{filepath.Join(l.dir, "reader"), "http://node", `machinectl: use endpoint "http://node": the scheme is "http"; `},
	} {
		got := l.run("config", "merge", tt.dir, "--name", "x", "--endpoint", tt.endpoint)
		if got.code != exitFailure || !strings.HasPrefix(got.stderr, tt.want) {
			t.Errorf("config merge %s = %+v; want %s", tt.dir, got, tt.want)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(l.dir, "config")); err == nil {
		t.Errorf("config merge left %v", entries)
	}
}

func TestConfigErrors(t *testing.T) {
	l := newLab(t)
	dir := filepath.Join(l.dir, "b")
	for _, tt := range []struct{ name, text, want string }{
		{"syntax", "current: [\n", "2: did not find expected node content; "},
		{"unknown key", "current: a\ncolour: red\n", `2: unknown key "colour"; known are current, contexts; `},
		{"unknown key of a context", "contexts:\n- name: a\n  endpoint: n\n  key: x\n", `4: unknown key "key"; known are name, endpoint, bundle, server_name; `},
		{"twice the key", "current: a\ncurrent: b\n", `2: "current" is on line 1 already; `},
		{"wrong type", "contexts:\n  a: b\n", "2: contexts is not a list; "},
		{"wrong type of a context", "contexts:\n- a\n", "2: a mapping of name, endpoint, bundle, server_name belongs here; "},
		{"wrong type of a value", "contexts:\n- name: [a]\n", "2: name is not a text; "},
		{"not a mapping", "- a\n", "1: a mapping of current, contexts belongs here; "},
		{"incomplete", "contexts:\n- name: a\n  endpoint: n\n", "2: a context needs a name, an endpoint and a bundle"},
		{"relative", "contexts:\n- {name: a, endpoint: n, bundle: x}\n", `2: the bundle "x" of context a is not an absolute path`},
		{"twice the name", "contexts:\n- {name: a, endpoint: n, bundle: " + dir + "}\n- {name: a, endpoint: n, bundle: " + dir + "}\n", "3: context a is on line 2 already"},
		{"dangling", "contexts: []\ncurrent: a\n", `2: the current context "a" is not among the contexts`},
		{"two documents", "current: ''\n---\ncurrent: ''\n", "2: a second document begins here; "},
		{"a second that is broken", "current: ''\n---\n[\n", "4: did not find expected node content; "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := os.Getenv(configVariable)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := l.run("config", "list")
			if got.code != exitFailure || !strings.HasPrefix(got.stderr, "machinectl: $DIR/config/config.yaml:"+tt.want) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("config list = %+v; want machinectl: $DIR/config/config.yaml:%s", got, tt.want)
			}
			// What does not need the file works without it.
			if got := l.run(l.as("reader", "get", "links", "lo")...); got.code != 0 {
				t.Errorf("get with flags beside a broken config file = %+v; want 0", got)
			}
		})
	}
	for _, text := range []string{"", "\n", "{}\n", "# none\n", "contexts: []\n", "contexts:\ncurrent:\n", "---\n"} {
		if _, err := parseContexts([]byte(text)); err != nil {
			t.Errorf("parseContexts(%q) = %v; want no error", text, err)
		}
	}
}

func TestWritePrivateKeepsLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.WriteFile(real, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	if err := writePrivate(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(real)
	info, lerr := os.Lstat(link)
	if err != nil || lerr != nil || string(b) != "new" || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the file has %q (%v), the link mode %v (%v); want new and a link", b, err, info.Mode(), lerr)
	}
}
