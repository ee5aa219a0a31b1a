package boottest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/api/client"
	"machined/api/machinepb"
	"machined/api/pki"
	"machined/board"
	"machined/images"
	"machined/images/netboot"
	"machined/images/parts"
)

// TestNetbootRAM boots nodes that have no disk: from a kernel and an initramfs as
// iPXE loads them, on a PC with a BIOS, and from a UKI through the firmware of each
// architecture. The first is held by its server, and then given a config that is
// not valid.
func TestNetbootRAM(t *testing.T) {
	for _, c := range []struct {
		name, board string
		uki         bool
		answers     []answer
	}{
		{"kernel and initramfs", "x86_64-uefi", false, []answer{held, badConfig, good}},
		{"UKI", "x86_64-uefi", true, []answer{good}},
		{"UKI for arm64", "arm64-uefi", true, []answer{good}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, ok := board.ByName(c.board)
			if !ok {
				t.Fatalf("there is no board %s", c.board)
			}
			only(t, b)
			t.Parallel()
			dir, built := buildNetboot(t, b)
			s := startEnroll(t, dir, c.answers)
			m := startRAM(t, dir, b, built, c.uki, s)
			v := m.waitAPI(t)
			checkRAMVersion(t, v, built, b)
			s.waitPhase(t, "ready", m.printed)
			s.check(t)
			checkRAMNode(t, m, s, c.answers)
			m.ctl(t, true, "shutdown")
			m.waitOff(t)
		})
	}
}

// buildNetboot makes a netboot directory with a CA and an admin's bundle.
func buildNetboot(t *testing.T, b board.Board) (string, netboot.Board) {
	t.Helper()
	dir := t.TempDir()
	store, err := parts.Open(*partsFlag)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA("lab", time.Now(), randomReader())
	if err != nil {
		t.Fatal(err)
	}
	admin, err := ca.IssueClient("admin", []pki.Role{pki.RoleAdmin}, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	caDir := filepath.Join(dir, netboot.PKIDir)
	if err := errors.Join(pki.WriteCA(caDir, ca), pki.WriteBundle(filepath.Join(dir, netboot.BundleDir), admin)); err != nil {
		t.Fatal(err)
	}
	cert, err := os.ReadFile(filepath.Join(caDir, pki.CACertFile))
	if err != nil {
		t.Fatal(err)
	}
	built, err := images.BuildNetboot(dir, images.NetbootOptions{Board: b, Store: store, CA: cert})
	if err != nil {
		t.Fatal(err)
	}
	return dir, built
}

// ramNode is a node without a disk, in QEMU.
type ramNode struct {
	cmd      *exec.Cmd
	done     chan struct{}
	board    string
	console  string
	bundle   string
	endpoint string
	started  time.Time
}

// startRAM starts a machine of 512 MiB, or 1 GiB where the firmware needs that.
func startRAM(t *testing.T, dir string, b board.Board, built netboot.Board, uki bool, s *enrollServer, more ...string) *ramNode {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	scratch := t.TempDir()
	at := func(f netboot.File) string { return filepath.Join(dir, filepath.FromSlash(f.Path)) }
	arguments := s.arguments()
	program, args := "qemu-system-x86_64", []string{"-M", "q35", "-cpu", "max", "-accel", "tcg,thread=single"}
	if b.Arch == "arm64" {
		program, args = "qemu-system-aarch64", []string{"-M", "virt", "-cpu", "cortex-a53", "-accel", "tcg"}
	}
	args = append(args, "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot", "-smp", "2", "-m", "512",
		"-netdev", fmt.Sprintf("user,id=n0,hostfwd=tcp:127.0.0.1:%d-:50000", port), "-device", "virtio-net-pci,netdev=n0,romfile=", "-device", "virtio-rng-pci")
	if uki {
		args = append(append(args, firmware(t, b, scratch)...), "-kernel", patchUKI(t, at(built.UKI.File), scratch, built.UKI.Placeholder, arguments))
	} else {
		// Emulated on a busy computer, the timer of a PC with a BIOS may be too late
		// for the kernel's check of it.
		const quirk = " no_timer_check"
		args = append(args, "-kernel", at(built.Kernel), "-initrd", at(built.Initramfs), "-append", built.Arguments+quirk+arguments)
	}
	m := &ramNode{
		cmd: exec.Command(program, append(args, more...)...), done: make(chan struct{}), console: filepath.Join(scratch, "console"),
		board: b.Name, bundle: filepath.Join(dir, netboot.BundleDir), endpoint: fmt.Sprintf("https://127.0.0.1:%d", port), started: time.Now(),
	}
	console, err := os.Create(m.console)
	if err != nil {
		t.Fatal(err)
	}
	m.cmd.Stdout, m.cmd.Stderr = console, console
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = m.cmd.Wait(); close(m.done) }()
	t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		<-m.done
		console.Close()
		if t.Failed() {
			t.Logf("console:\n%s", m.printed())
		}
	})
	return m
}

// firmware are the arguments for the machine's UEFI, with variables of its own.
func firmware(t *testing.T, b board.Board, scratch string) []string {
	t.Helper()
	code, template := "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"
	if b.Arch == "arm64" {
		code, template = "/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"
	}
	vars := filepath.Join(scratch, "vars.fd")
	text, err := os.ReadFile(template)
	if err == nil {
		err = os.WriteFile(vars, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + code, "-drive", "if=pflash,format=raw,unit=1,file=" + vars}
}

// patchUKI writes the server's arguments where the index says, as the server does.
func patchUKI(t *testing.T, path, scratch string, at netboot.Placeholder, arguments string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	place := text[at.Offset:][:at.Length]
	if len(bytes.TrimLeft(place, " ")) != 0 || len(arguments) > len(place) {
		t.Fatalf("the placeholder holds %q; want %d spaces", place, at.Length)
	}
	copy(place, arguments)
	patched := filepath.Join(scratch, "uki.efi")
	if err := os.WriteFile(patched, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return patched
}

func (m *ramNode) printed() string {
	text, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// waitAPI waits for the API of the node.
func (m *ramNode) waitAPI(t *testing.T) *machinepb.VersionResponse {
	t.Helper()
	bundle, err := pki.LoadBundle(m.bundle)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		select {
		case <-m.done:
			t.Fatal("the machine went off")
		default:
		}
		c, err := client.Dial(m.endpoint, bundle, client.Options{Timeout: 5 * time.Second, BundleDir: m.bundle})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		v, err := c.Version(ctx)
		cancel()
		c.Close()
		if err == nil {
			t.Logf("the API answered after %s", time.Since(m.started).Round(100*time.Millisecond))
			return v
		}
	}
	t.Fatalf("there is no API after %s", patience)
	return nil
}

// ctl runs machinectl; ok says whether it is to succeed.
func (m *ramNode) ctl(t *testing.T, ok bool, args ...string) string {
	t.Helper()
	out, err := exec.Command(*ctlFlag, append([]string{"--bundle", m.bundle, "--endpoint", m.endpoint}, args...)...).CombinedOutput()
	if (err == nil) != ok {
		t.Fatalf("machinectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (m *ramNode) waitOff(t *testing.T) {
	t.Helper()
	select {
	case <-m.done:
	case <-time.After(patience):
		t.Fatal("the machine does not switch off")
	}
}
