package lab

import (
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"machined/api/pki"
	"machined/board"
	"machined/tools/qemu"
	"machined/tools/testenv"
)

func testBoard(t *testing.T) board.Board {
	t.Helper()
	b, ok := board.ByName("arm64-mbr")
	if !ok {
		t.Fatal("there is no board arm64-mbr")
	}
	return b
}

func TestBuildWithoutParts(t *testing.T) {
	_, err := Build(Options{Board: testBoard(t), Parts: t.TempDir(), Dir: t.TempDir()})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make parts") {
		t.Errorf("Build() = %v without parts; want to be told to run make parts", err)
	}
}

// TestBuild makes a node with the lab's PKI, and one that makes its own.
func TestBuild(t *testing.T) {
	const store = "../../build/parts"
	testenv.Need(t, store)
	for _, own := range []bool{false, true} {
		dir := t.TempDir()
		n, err := Build(Options{Board: testBoard(t), Parts: store, Dir: dir, OwnCA: own})
		if err != nil {
			t.Fatal(err)
		}
		if n.Image.Path != filepath.Join(dir, "arm64-mbr.img") || n.Disk() != filepath.Join(dir, "arm64-mbr.disk") {
			t.Errorf("Build() made %s and will have the disk %s; want both in %s", n.Image.Path, n.Disk(), dir)
		}
		if own {
			if n.Bundle != "" {
				t.Errorf("a node with a CA of its own has the bundle %s; want none", n.Bundle)
			}
			continue
		}
		b, err := pki.LoadBundle(n.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Cert.Subject.Organization; len(got) != 1 || got[0] != string(pki.RoleAdmin) {
			t.Errorf("the bundle has the roles %q; want the admin's", got)
		}
	}
}

func TestFreePort(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	vm := &qemu.VM{Options: qemu.Options{APIPort: port}}
	l, err := net.Listen("tcp", strings.TrimPrefix(Endpoint(vm), "https://"))
	if err != nil {
		t.Fatalf("freePort() = %d, which cannot be listened on: %v", port, err)
	}
	l.Close()
}
