package boottest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/board"
	"machined/tools/lab"
)

// TestUpgradeResetOwnCA resets a node that has made its own CA: it makes another
// one, leaves its owner a new bundle on the card, and knows the old one no more.
func TestUpgradeResetOwnCA(t *testing.T) {
	const made = "This node made its own CA"
	b, _ := board.ByName("x86_64-uefi")
	only(t, b)
	n := build(t, lab.Options{Board: b, OwnCA: true, Config: []byte(plainConfig)})
	m := start(t, n, nil)
	m.waitConsole(t, made)
	old := bundleOf(t, m)

	m = start(t, n, nil)
	m.bundle = old
	m.waitAPI(t, "")
	m.settled(t)
	m.waitConsole(t, "The client bundle was used and is off the card.")
	m.ctl(t, "reset requested\n", "reset", "--yes")
	m.waitConsole(t, made)
	next := bundleOf(t, m)
	if sameFile(t, old, next, "ca.crt") || sameFile(t, old, next, "client.crt") {
		t.Error("the node's CA, or the bundle that it left, is the one from before the reset")
	}

	m = start(t, n, nil)
	m.bundle = next
	m.waitAPI(t, "")
	m.settled(t)
	m.bundle = old
	if all, err := m.list("BootStatus"); err == nil {
		t.Errorf("the bundle from before the reset still lists %v", all)
	}
	m.bundle = next
	m.waitConsole(t, "The client bundle was used and is off the card.")
	m.ctl(t, "shutdown requested\n", "shutdown")
	m.waitOff(t)
	if names := tool(t, "mdir", "-b", "-i", bootVolume(t, n.Disk()), "::machined"); strings.Contains(names, "bundle") {
		t.Errorf("the card still holds %s; want no bundle", names)
	}
	checkDisk(t, n)
}

// bundleOf switches a node off that nobody can reach yet, and takes the bundle from
// its card.
func bundleOf(t *testing.T, m *machine) string {
	t.Helper()
	if err := m.vm.PowerButton(); err != nil {
		t.Fatal(err)
	}
	m.waitOff(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	takeBundle(t, m.node, dir)
	return dir
}

// sameFile compares a file of two directories.
func sameFile(t *testing.T, one, other, name string) bool {
	t.Helper()
	a, err := os.ReadFile(filepath.Join(one, name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(other, name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(a, b)
}
