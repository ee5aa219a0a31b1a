package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"machined/images/bundle"
	"machined/images/parts"
)

// bench is a directory with parts for a board, and with keys that are the same
// in each run.
type bench struct{ dir string }

func newBench(t *testing.T) bench {
	t.Helper()
	b := bench{t.TempDir()}
	index := parts.Index{Version: "v1.2.3-4-gabc1234", BuildTime: 1796006004}
	for _, name := range []string{
		"system/arm64", "initramfs/arm64", "kernel/arm64", "licenses/linux-arm64/LICENSE", "licenses/linux-arm64/LICENSE.linux", "licenses/machined-arm64/LICENSES",
	} {
		path := b.path("parts/" + name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		b.write(t, "parts/"+name, []byte("this is "+name+"\n"))
		sum, size, err := parts.Hash(path)
		if err != nil {
			t.Fatal(err)
		}
		index.Parts = append(index.Parts, parts.Part{Name: name, Size: size, SHA256: sum})
	}
	text, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "parts/"+parts.IndexName, text)
	for i, name := range []string{"one.pem", "two.pem"} {
		if err := writeSigningKey(b.path(name), b.key(i)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b bench) key(i int) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, ed25519.SeedSize))
}

func (b bench) public(i int) string { return publicKeyText(b.key(i).Public().(ed25519.PublicKey)) }

func (b bench) write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(b.path(name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b bench) run(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	fixed := strings.NewReplacer(b.dir, "$DIR")
	return result{fixed.Replace(stdout.String()), fixed.Replace(stderr.String()), code}
}

// build builds $DIR/name.
func (b bench) build(name string, args ...string) result {
	return b.run(append([]string{"bundle", "build", "--board", "arm64-mbr", "--parts", b.path("parts"), "--out", b.path(name)}, args...)...)
}

func TestBundleBuild(t *testing.T) {
	b := newBench(t)
	got := b.build("signed", "--key", b.path("one.pem"), "--key", b.path("two.pem"), "--min-version", "v1.0.0")
	sum, _, err := parts.Hash(b.path("signed"))
	if want := (result{sum + "  $DIR/signed\n", "", 0}); err != nil || got != want {
		t.Fatalf("bundle build = %+v, %v; want %+v", got, err, want)
	}
	if again := b.build("again", "--key", b.path("one.pem"), "--key", b.path("two.pem"), "--min-version", "v1.0.0"); !strings.HasPrefix(again.stdout, sum) {
		t.Errorf("bundle build = %+v; want the same bundle, %s", again, sum)
	}
	if got := b.build("plain"); got.code != 0 {
		t.Fatalf("bundle build without a key = %+v", got)
	}
	for _, out := range []string{"text", "table", "json", "yaml"} {
		got := b.run("bundle", "inspect", b.path("signed"), "-o", out)
		if got.code != 0 || got.stderr != "" {
			t.Errorf("bundle inspect -o %s = %+v", out, got)
		}
		golden(t, "bundle."+out, got.stdout)
	}
	if got := b.run("bundle", "inspect", b.path("plain")); !strings.Contains(got.stdout, "\nsigned by     nobody\n") || !strings.Contains(got.stdout, "\nfor nodes of  any\n") {
		t.Errorf("bundle inspect = %+v of a plain one; want nobody and any", got)
	}
}

func TestBundleVerify(t *testing.T) {
	b := newBench(t)
	for name, args := range map[string][]string{"plain": nil, "signed": {"--key", b.path("one.pem")}} {
		if got := b.build(name, args...); got.code != 0 {
			t.Fatalf("bundle build %s = %+v", name, got)
		}
	}
	signed, err := os.ReadFile(b.path("signed"))
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "cut", signed[:len(signed)-3])
	b.write(t, "longer", append(slices.Clone(signed), 0))
	damaged := slices.Clone(signed)
	damaged[len(damaged)-1] ^= 1
	b.write(t, "damaged", damaged)
	b.write(t, "text", []byte("hello\n"))
	id := func(i int) string { return bundle.KeyIDOf(b.key(i).Public().(ed25519.PublicKey)).String() }
	const what = " is good: version v1.2.3-4-gabc1234 for arm64-mbr, 6 files, "
	for _, c := range []struct {
		name string
		keys []string
		want result
	}{
		{"plain", nil, result{"$DIR/plain" + what + "not signed\n", "", 0}},
		{"signed", nil, result{"$DIR/signed" + what + "signatures by " + id(0) + " not checked; give --key\n", "", 0}},
		{"signed", []string{b.public(1), b.public(0)}, result{"$DIR/signed" + what + "signed by " + id(0) + "\n", "", 0}},
		{"plain", []string{b.public(0)}, result{"", "the bundle is not signed, and the keys " + id(0) + " are trusted alone; build it with --key", 1}},
		{"signed", []string{b.public(1)}, result{"", "it is signed by " + id(0) + ", and trusted are " + id(1), 1}},
		{"cut", nil, result{"", "machinectl: verify $DIR/cut: read file system.squashfs of the bundle, 18 of 21 bytes: the bundle is cut short", 1}},
		{"longer", nil, result{"", "bytes after the end of the bundle", 1}},
		{"damaged", []string{b.public(0)}, result{"", "read file system.squashfs of the bundle: the bundle is damaged", 1}},
		{"text", nil, result{"", "not a bundle: it begins with \"hello\\n\"", 1}},
		{"none", nil, result{"", "no such file", 1}},
		{"signed", []string{"AAAA"}, result{"", `machinectl: --key is "AAAA"; want an Ed25519 public key as`, 2}},
	} {
		args := []string{"bundle", "verify", b.path(c.name)}
		for _, k := range c.keys {
			args = append(args, "--key", k)
		}
		got := b.run(args...)
		if got.stdout != c.want.stdout || got.code != c.want.code || !strings.Contains(got.stderr, c.want.stderr) || strings.Count(got.stderr, "\n") > 1 {
			t.Errorf("bundle verify %s with %q = %+v\nwant %+v", c.name, c.keys, got, c.want)
		}
	}
	if got := b.run("bundle", "inspect", b.path("text")); got.code != 1 || !strings.HasPrefix(got.stderr, "machinectl: inspect $DIR/text: ") {
		t.Errorf("bundle inspect of a text = %+v; want a failure", got)
	}
}

func TestBundleKeygen(t *testing.T) {
	b := newBench(t)
	got := b.run("bundle", "keygen", "--out", b.path("key.pem"))
	key, err := readSigningKey(b.path("key.pem"))
	if err != nil {
		t.Fatalf("%v after %+v", err, got)
	}
	public := key.Public().(ed25519.PublicKey)
	want := result{publicKeyText(public) + "\n", "private key " + bundle.KeyIDOf(public).String() + " in $DIR/key.pem; keep it off the nodes and backed up\n", 0}
	if got != want {
		t.Errorf("bundle keygen = %+v; want %+v", got, want)
	}
	info, err := os.Stat(b.path("key.pem"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has the mode %v, %v; want 0600", info.Mode(), err)
	}
	if got := b.run("bundle", "keygen", "--out", b.path("key.pem")); got.code != 1 || !strings.Contains(got.stderr, "there is a file already, perhaps with the only copy of a key") {
		t.Errorf("bundle keygen = %+v over a key; want it refused", got)
	}
	if again, err := readSigningKey(b.path("key.pem")); err != nil || !again.Equal(key) {
		t.Errorf("the key has changed, %v", err)
	}
}

func TestBadSigningKey(t *testing.T) {
	b := newBench(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "rsa.pem", pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der}))
	b.write(t, "half.pem", pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der[:20]}))
	b.write(t, "public.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	b.write(t, "text", []byte(b.public(0)))
	for name, says := range map[string]string{
		"rsa.pem": "it is no Ed25519 key", "half.pem": "half.pem: ", "public.pem": "it is no private key in PEM", "text": "it is no private key in PEM", "none": "no such file",
	} {
		got := b.build("out", "--key", b.path(name))
		if got.code != 1 || !strings.HasPrefix(got.stderr, "machinectl: read the key to sign with") || !strings.Contains(got.stderr, says) {
			t.Errorf("bundle build with the key %s = %+v; want %q", name, got, says)
		}
		if _, err := os.Stat(b.path("out")); err == nil {
			t.Errorf("bundle build with the key %s has left a bundle", name)
		}
	}
}

func TestBundleUsage(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"bundle", "build"}, `required flag(s) "board", "out" not set`},
		{[]string{"bundle", "build", "--board", "x", "--out", "y"}, `unknown board "x"; known are `},
		{[]string{"bundle", "build", "--board", "arm64-mbr", "--out", "y", "--min-version", "08c378b"}, `--min-version is "08c378b", which other versions cannot be compared with; use one such as v1.2.3`},
		{[]string{"bundle", "keygen"}, `required flag(s) "out" not set`},
		{[]string{"bundle", "inspect"}, "accepts 1 arg(s), received 0"},
		{[]string{"bundle", "verify"}, "accepts 1 arg(s), received 0"},
		{[]string{"bundle", "sign"}, `unknown command "sign" for "machinectl bundle"; there are build, inspect, keygen, verify`},
	} {
		got := b.run(c.args...)
		if got.code != exitUsage || got.stdout != "" || !strings.HasPrefix(got.stderr, "machinectl: "+c.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("machinectl %q = %+v\nwant %d, one line machinectl: %s", c.args, got, exitUsage, c.want)
		}
	}
	var help strings.Builder
	for _, args := range [][]string{{"bundle"}, {"bundle", "build", "--help"}, {"bundle", "inspect", "--help"}, {"bundle", "verify", "--help"}, {"bundle", "keygen", "--help"}} {
		text, _, _ := strings.Cut(b.run(args...).stdout, "\nGlobal Flags:")
		help.WriteString("$ machinectl " + strings.Join(args, " ") + "\n" + text + "\n")
	}
	golden(t, "bundlehelp.text", help.String())
}
