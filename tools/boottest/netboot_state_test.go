package boottest

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/api/pki"
	"machined/board"
	"machined/tools/lab"
)

// TestNetbootState netboots a node that was installed on its disk before: what STATE
// has of an identity and a config goes before what the server gives.
func TestNetbootState(t *testing.T) {
	b, ok := board.ByName("x86_64-uefi")
	if !ok {
		t.Fatal("there is no board x86_64-uefi")
	}
	only(t, b)
	t.Parallel()
	n := build(t, lab.Options{Board: b, Config: []byte(plainConfig)})
	m := start(t, n, nil)
	m.waitAPI(t, "")
	m.settled(t)
	identity := m.serverFingerprint(t)
	m.ctl(t, "shutdown requested\n", "shutdown")
	m.waitOff(t)

	dir, built := buildNetboot(t, b)
	s := startEnroll(t, dir, []answer{good})
	boot := func() *ramNode {
		s.forget()
		r := startRAM(t, dir, b, built, false, s, "-drive", "file="+n.Disk()+",if=virtio,format=raw")
		r.bundle = n.Bundle // the CA is that of STATE
		r.waitAPI(t)
		s.waitPhase(t, "ready", r.printed)
		return r
	}
	r := boot()
	if got := r.fingerprint(t); got != identity {
		t.Errorf("netbooted, the node's certificate is %s; want that of STATE, %s", got, identity)
	}
	if out := r.ctl(t, true, "get", "VolumeStatus"); strings.Contains(out, "tmpfs") || !strings.Contains(out, "/dev/vda2") || !strings.Contains(out, "/dev/vda3") {
		t.Errorf("machinectl get VolumeStatus printed %q; want the volumes of the disk", out)
	}
	if out := r.ctl(t, true, "get", "MachineConfig"); !strings.Contains(out, "netboot server") {
		t.Errorf("machinectl get MachineConfig printed %q; want the server's: none was applied", out)
	}
	applied := filepath.Join(t.TempDir(), "applied.yaml")
	if err := os.WriteFile(applied, []byte("machine:\n  hostname: applied\n  runtime: {disabled: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.ctl(t, true, "apply", applied)
	r.ctl(t, true, "shutdown")
	r.waitOff(t)
	checkDisk(t, n)

	r = boot()
	if out := r.ctl(t, true, "get", "MachineConfig"); !strings.Contains(out, "/system/state/config.yaml") || !strings.Contains(out, "hostname: applied") {
		t.Errorf("machinectl get MachineConfig printed %q; want what was applied", out)
	}
	r.ctl(t, true, "shutdown")
	r.waitOff(t)
}

// fingerprint returns that of the certificate that the node shows.
func (m *ramNode) fingerprint(t *testing.T) string {
	t.Helper()
	bundle, err := pki.LoadBundle(m.bundle)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(m.endpoint, "https://"), pki.ClientTLS(bundle, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return pki.Fingerprint(conn.ConnectionState().PeerCertificates[0])
}
