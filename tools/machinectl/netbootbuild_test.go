package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/api/pki"
	"machined/images/netboot"
	"machined/images/parts"
	"machined/tools/testenv"
)

// TestNetbootPKI makes a CA and a bundle once, and takes neither for granted.
func TestNetbootPKI(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	var said bytes.Buffer
	first, err := netbootPKI(dir, &said, now)
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{"pki": 0o700, "pki/ca.key": 0o600, "bundle": 0o700, "bundle/client.key": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %#o", path, info, err, mode)
		}
	}
	bundle, err := pki.LoadBundle(filepath.Join(dir, "bundle"))
	if err != nil || !pki.Roles(bundle.Cert).Allows(pki.RoleAdmin) {
		t.Fatalf("the bundle is %v, %v; want an admin's", bundle, err)
	}
	second, err := netbootPKI(dir, &said, now)
	if err != nil || !bytes.Equal(first, second) || said.Len() > 0 {
		t.Errorf("netbootPKI() = %v the second time, and says %q; want the same CA", err, said.String())
	}
	if _, err := netbootPKI(dir, &said, now.Add(2*clientLife)); err != nil || !strings.Contains(said.String(), "the client certificate") {
		t.Errorf("netbootPKI() = %v two years on, and says %q; want a warning", err, said.String())
	}

	key := filepath.Join(dir, "pki/ca.key")
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	var partial *pki.PartialError
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := netbootPKI(dir, &said, now); !errors.As(err, &partial) {
		t.Errorf("netbootPKI() = %v without the CA's key; want a PartialError", err)
	}
	if err := errors.Join(os.WriteFile(key, text, 0o600), os.Remove(filepath.Join(dir, "bundle/ca.crt"))); err != nil {
		t.Fatal(err)
	}
	if _, err := netbootPKI(dir, &said, now); !errors.As(err, &partial) {
		t.Errorf("netbootPKI() = %v with a part of a bundle; want a PartialError", err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "bundle/ca.crt"), first, 0o644), os.RemoveAll(filepath.Join(dir, "pki"))); err != nil {
		t.Fatal(err)
	}
	if _, err := netbootPKI(dir, &said, now); err == nil || !strings.Contains(err.Error(), "restore that CA, or remove the bundle") {
		t.Errorf("netbootPKI() = %v with a bundle of a CA that is gone; want it refused", err)
	}
	if err := os.Rename(filepath.Join(dir, "bundle"), filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	if _, err := netbootPKI(dir, &said, now); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "bundle")), os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "bundle"))); err != nil {
		t.Fatal(err)
	}
	if _, err := netbootPKI(dir, &said, now); err == nil || !strings.Contains(err.Error(), "is of another CA") {
		t.Errorf("netbootPKI() = %v with the bundle of another CA; want it refused", err)
	}
}

// TestNetbootConfig checks a config, and never writes over one that is there.
func TestNetbootConfig(t *testing.T) {
	dir := t.TempDir()
	one, two, bad := filepath.Join(dir, "1.yaml"), filepath.Join(dir, "2.yaml"), filepath.Join(dir, "bad.yaml")
	for path, text := range map[string]string{one: "machine: {hostname: one}\n", two: "machine: {hostname: two}\n", bad: "machine: {hostnam: x, sysctl: 1}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	f := netbootFlags{out: filepath.Join(dir, "out")}
	var usage usageError
	if _, err := f.readConfig(&said); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--config") {
		t.Errorf("readConfig() = %v without a config; want to be told of --config", err)
	}
	f.config = bad
	if _, err := f.readConfig(&said); err == nil || !strings.Contains(err.Error(), "hostnam") || !strings.Contains(err.Error(), "sysctl") {
		t.Errorf("readConfig() = %v; want both errors", err)
	}
	for _, path := range []string{one, one, two} {
		f.config = path
		text, err := f.readConfig(&said)
		if err == nil {
			err = f.keepDefault(text, &said)
		}
		if err != nil || (said.Len() > 0) != (path == two) {
			t.Errorf("%s: %v, and %q is said; want a word when another config is there", path, err, said.String())
		}
	}
	f.config = ""
	if text, err := f.readConfig(&said); err != nil || string(text) != "machine: {hostname: one}\n" {
		t.Errorf("readConfig() = %q, %v; want the first one", text, err)
	}
}

// TestNetbootBuild runs the command with the parts that `make parts` collected.
func TestNetbootBuild(t *testing.T) {
	const store = "../../build/parts"
	testenv.Need(t, filepath.Join(store, "stub/amd64.efi"))
	if testing.Short() {
		t.Skip("builds a real image; left out by -short")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(config, []byte("machine: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	args := []string{"netboot", "build", "--board", "x86_64-uefi", "--config", config, "--out", dir, "--parts", store, "--bake-config"}
	if code := run(args, &out, &said); code != 0 {
		t.Fatalf("machinectl netboot build ends with %d: %s", code, said.String())
	}
	index, err := netboot.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, f := range netbootFiles(index.Boards["x86_64-uefi"]) {
		path := filepath.Join(dir, f.Path)
		sum, size, err := parts.Hash(path)
		if err != nil || sum != f.SHA256 || size != f.Size {
			t.Errorf("%s has %d bytes, %s, %v; the index says %+v", path, size, sum, err, f)
		}
		lines.WriteString(sum + "  " + path + "\n")
	}
	if out.String() != lines.String() {
		t.Errorf("the command prints %q; want %q", out.String(), lines.String())
	}
	text, _ := json.Marshal(index.Boards["x86_64-uefi"])
	t.Logf("%s", text)
}

func TestNetbootUsage(t *testing.T) {
	for _, args := range [][]string{
		{"netboot", "build"}, {"netboot", "bild"}, {"netboot", "build", "--board", "x86_64-uefi", "--out", t.TempDir(), "more"},
	} {
		var out, said bytes.Buffer
		if code := run(args, &out, &said); code != exitUsage || out.Len() > 0 {
			t.Errorf("machinectl %s ends with %d and prints %q; want %d", strings.Join(args, " "), code, out.String(), exitUsage)
		}
	}
}
