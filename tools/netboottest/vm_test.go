package netboottest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"machined/images/netboot"
	"machined/tools/netboot/registry"
	"machined/tools/netlab"
)

// machine is what a board has, beside its cable.
type machine struct {
	n        int // its number in the network, from 1
	arm64    bool
	bios     bool     // SeaBIOS in place of UEFI
	nic      string   // device with its ROM: "virtio-net-pci,romfile="
	memoryMB int      // 0 for 512
	more     []string // arguments for QEMU
}

// vm is a machine that is on.
type vm struct {
	machine
	t       *testing.T
	mac     string
	qmp     string
	console string
	cmd     *exec.Cmd
	done    chan struct{}
	started time.Time
}

// noROM is a NIC that firmware knows by itself, with no iPXE in it.
const noROM = "virtio-net-pci,romfile="

// withIPXE has iPXE: QEMU's own choice of ROM, which it patches to fit the NIC. One
// that is named it would leave as it is, and a BIOS would pass over it.
const withIPXE = "virtio-net-pci"

// power starts a machine without a disk.
func power(t *testing.T, m machine) *vm {
	t.Helper()
	scratch := t.TempDir()
	v := &vm{machine: m, t: t, mac: mac(m.n), qmp: filepath.Join(scratch, "qmp"), console: filepath.Join(scratch, "console"), done: make(chan struct{})}
	if v.memoryMB == 0 {
		v.memoryMB = 512
	}
	tap := fmt.Sprintf("tap%d", m.n)
	lan.Tap(t, tap)
	program, args := "qemu-system-x86_64", []string{"-M", "q35", "-cpu", "max", "-accel", "tcg,thread=single"}
	if m.arm64 {
		program, args = "qemu-system-aarch64", []string{"-M", "virt", "-cpu", "cortex-a53", "-accel", "tcg,thread=single"}
	}
	args = append(args, "-nodefaults", "-display", "none", "-serial", "file:"+v.console, "-m", fmt.Sprint(v.memoryMB),
		"-qmp", "unix:"+v.qmp+",server=on,wait=off",
		"-netdev", fmt.Sprintf("tap,id=n0,ifname=%s,script=no,downscript=no", tap),
		"-device", m.nic+",netdev=n0,bootindex=1,mac="+v.mac,
		"-uuid", fmt.Sprintf("00000000-0000-4000-8000-0000000077%02x", m.n), "-device", "virtio-rng-pci")
	args = append(append(args, v.firmware(scratch)...), m.more...)
	v.cmd = exec.Command(program, args...)
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	v.cmd.Stdout, v.cmd.Stderr = &said, &said
	v.started = time.Now()
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = v.cmd.Wait(); close(v.done) }()
	t.Cleanup(func() {
		v.off()
		if t.Failed() {
			t.Logf("QEMU: %s\nconsole of %s:\n%s", said.String(), v.mac, v.printed())
		}
	})
	return v
}

// firmware are the arguments for UEFI, with variables of its own.
func (v *vm) firmware(scratch string) []string {
	v.t.Helper()
	code, template := "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"
	if v.arm64 {
		code, template = "/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"
	}
	if v.bios {
		return nil
	}
	vars := filepath.Join(scratch, "vars.fd")
	netlab.Run(v.t, "cp", template, vars)
	return []string{"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + code, "-drive", "if=pflash,format=raw,unit=1,file=" + vars}
}

func (v *vm) off() {
	_ = v.cmd.Process.Kill()
	<-v.done
}

func (v *vm) printed() string {
	text, err := os.ReadFile(v.console)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// reset is the power switch of a lab, off and on.
func (v *vm) reset() {
	v.t.Helper()
	conn, err := net.Dial("unix", v.qmp)
	if err != nil {
		v.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	lines := bufio.NewScanner(conn)
	lines.Scan() // its greeting
	for _, command := range []string{"qmp_capabilities", "system_reset"} {
		if _, err := fmt.Fprintf(conn, `{"execute":%q}`+"\n", command); err != nil || !lines.Scan() {
			v.t.Fatalf("tell QEMU to %s: %v, %v", command, err, lines.Err())
		}
	}
}

// up waits until the server sees the board ready, and asks the node for its version.
func (v *vm) up(s *server) registry.Board {
	v.t.Helper()
	b := s.waitStage(v.mac, registry.API, registry.Ready)
	out := v.ctl(s, b, "version")
	v.t.Logf("%s at %s is up after %v", v.mac, b.Address, time.Since(v.started).Round(100*time.Millisecond))
	if !strings.Contains(out, b.Version) || b.Version == "" {
		v.t.Errorf("machinectl version says %q, and the server knows the version %q", out, b.Version)
	}
	return b
}

// ctl runs machinectl against the node.
func (v *vm) ctl(s *server, b registry.Board, args ...string) string {
	v.t.Helper()
	args = append([]string{"--bundle", filepath.Join(s.dir, netboot.BundleDir), "--endpoint", "https://" + net.JoinHostPort(b.Address, "50000")}, args...)
	var out []byte
	eventually(v.t, "machinectl "+strings.Join(args, " "), func() (bool, string) {
		var err error
		out, err = exec.Command(*ctlFlag, args...).CombinedOutput()
		return err == nil, fmt.Sprintf("%v: %s", err, out)
	})
	return string(out)
}
