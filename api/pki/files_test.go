package pki

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func nodeDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	if err := WriteNode(dir, newNode(t, newCA(t))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWriteAndLoad(t *testing.T) {
	ca := newCA(t)
	node, bundle := newNode(t, ca), newBundle(t, ca, RoleAdmin)
	dir := t.TempDir()
	if err := errors.Join(WriteNode(dir+"/a/node", node), WriteBundle(dir+"/client", bundle), WriteCA(dir+"/ca", ca)); err != nil {
		t.Fatal(err)
	}
	n, err := LoadNode(dir + "/a/node")
	if err != nil || !n.Key.Equal(node.Key) || !n.Cert.Equal(node.Cert) || !n.CACert.Equal(ca.Cert) || n.CA != nil || len(n.Warnings) > 0 {
		t.Errorf("LoadNode = %+v, %v; want what was written", n, err)
	}
	b, err := LoadBundle(dir + "/client")
	if err != nil || !b.Key.Equal(bundle.Key) || !b.Cert.Equal(bundle.Cert) || !b.CACert.Equal(ca.Cert) || len(b.Warnings) > 0 {
		t.Errorf("LoadBundle = %+v, %v; want what was written", b, err)
	}
	c, err := LoadCA(dir + "/ca")
	if err != nil || !c.Key.Equal(ca.Key) || !c.Cert.Equal(ca.Cert) || len(c.Warnings) > 0 {
		t.Fatalf("LoadCA = %+v, %v; want what was written", c, err)
	}
	if err := newBundle(t, c, RoleReader).Cert.CheckSignatureFrom(ca.Cert); err != nil {
		t.Errorf("what a loaded CA issued: %v", err)
	}
}

// An embedded authority comes back able to issue.
func TestEmbeddedCA(t *testing.T) {
	ca := newCA(t)
	node := newNode(t, ca)
	node.CA = ca
	dir := filepath.Join(t.TempDir(), "pki")
	if err := WriteNode(dir, node); err != nil {
		t.Fatal(err)
	}
	n, err := LoadNode(dir)
	if err != nil || n.CA == nil {
		t.Fatalf("LoadNode = %+v, %v; want the CA", n, err)
	}
	if err := newBundle(t, n.CA, RoleAdmin).Cert.CheckSignatureFrom(ca.Cert); err != nil {
		t.Errorf("what an embedded CA issued: %v", err)
	}
}

func TestModes(t *testing.T) {
	ca := newCA(t)
	node := newNode(t, ca)
	node.CA = ca
	dir := filepath.Join(t.TempDir(), "pki")
	if err := WriteNode(dir, node); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		".": 0o700, CACertFile: 0o644, CAKeyFile: 0o600, NodeCertFile: 0o644, NodeKeyFile: 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s = %v, %v; want %v", name, info.Mode().Perm(), err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("directory has %v, %v; want four files", entries, err)
	}
}

func TestOpenKeyIsAWarning(t *testing.T) {
	dir := nodeDir(t)
	if err := os.Chmod(filepath.Join(dir, NodeKeyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	n, err := LoadNode(dir)
	want := "others may read node.key in " + dir + " (mode 0644); on a file system with permissions, chmod it to 0600"
	if err != nil || !slices.Equal(n.Warnings, []string{want}) {
		t.Errorf("LoadNode: warnings %q, %v; want %q", n.Warnings, err, want)
	}
}

func TestKeysAreNotReplaced(t *testing.T) {
	dir := nodeDir(t)
	before, err := os.ReadFile(filepath.Join(dir, NodeKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	err = WriteNode(dir, newNode(t, newCA(t)))
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("WriteNode over a node = %v; want fs.ErrExist", err)
	}
	after, _ := os.ReadFile(filepath.Join(dir, NodeKeyFile))
	if string(before) != string(after) {
		t.Error("the key was replaced")
	}
}

// A power cut while the directory is being made must not stop the next boot,
// which finds no PKI and makes one.
func TestLeftoverOfAPowerCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := os.Mkdir(dir+".new", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{NodeKeyFile, temporary(NodeCertFile)} {
		if err := os.WriteFile(filepath.Join(dir+".new", name), []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LoadNode(dir); !errors.Is(err, ErrNone) {
		t.Errorf("LoadNode = %v; want ErrNone", err)
	}
	if err := WriteNode(dir, newNode(t, newCA(t))); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadNode(dir); err != nil {
		t.Errorf("LoadNode = %v; want no error", err)
	}
	if _, err := os.Stat(dir + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stage is left: %v", err)
	}
}

// Into a directory that exists, keys go first.
func TestIntoAnExistingDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := WriteBundle(dir, newBundle(t, newCA(t), RoleAdmin)); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadBundle(dir); err != nil {
		t.Errorf("LoadBundle = %v; want no error", err)
	}
	files, err := identityFiles(newNode(t, newCA(t)).Identity, NodeKeyFile, NodeCertFile)
	if err != nil || files[0].name != NodeKeyFile {
		t.Errorf("first file = %s, %v; want the key", files[0].name, err)
	}
}

func TestPartial(t *testing.T) {
	all := []string{CACertFile, NodeCertFile, NodeKeyFile}
	full := nodeDir(t)
	for mask := range 1 << len(all) {
		fsys := fstest.MapFS{"notes.txt": {Data: []byte("x")}}
		var present, missing []string
		for i, name := range all {
			if mask&(1<<i) == 0 {
				missing = append(missing, name)
				continue
			}
			present = append(present, name)
			data, err := os.ReadFile(filepath.Join(full, name))
			if err != nil {
				t.Fatal(err)
			}
			fsys[name] = &fstest.MapFile{Data: data, Mode: 0o600}
		}
		_, err := LoadNodeFS(fsys, "/boot/pki")
		var partial *PartialError
		switch {
		case len(present) == 0:
			if !errors.Is(err, ErrNone) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("nothing there: %v; want ErrNone", err)
			}
		case len(missing) == 0:
			if err != nil {
				t.Errorf("all there: %v; want no error", err)
			}
		case !errors.As(err, &partial):
			t.Errorf("%v there: %v; want a PartialError", present, err)
		default:
			if !slices.Equal(partial.Present, present) || !slices.Equal(partial.Missing, missing) || partial.Dir != "/boot/pki" {
				t.Errorf("PartialError = %+v; want %v present, %v missing", partial, present, missing)
			}
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v could be taken for an empty directory", err)
			}
		}
	}
}

func TestPartialText(t *testing.T) {
	_, err := LoadNodeFS(fstest.MapFS{CAKeyFile: {}, NodeKeyFile: {}, CACertFile: {}}, "/boot/pki")
	const want = "the PKI in /boot/pki is partial: it has ca.crt, node.key, ca.key and lacks node.crt; restore what is missing, or remove the rest to begin anew"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v; want %s", err, want)
	}
}

func TestNoDirectory(t *testing.T) {
	_, err := LoadCA(filepath.Join(t.TempDir(), "absent"))
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "no PKI here") {
		t.Errorf("LoadCA = %v; want ErrNone", err)
	}
}
