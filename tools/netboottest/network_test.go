package netboottest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The one network of a test, and the server's address in it.
const (
	bridge   = "boards0"
	serverIP = "10.77.0.1"
)

// network makes the bridge, with the server's address.
func network(t *testing.T) {
	t.Helper()
	run(t, "ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", bridge).Run() })
	run(t, "ip", "addr", "add", serverIP+"/24", "dev", bridge)
	run(t, "ip", "link", "set", bridge, "up")
}

// mac is that of a test's board n.
func mac(n int) string { return fmt.Sprintf("52:54:00:00:77:%02x", n) }

// tap makes the far end of the cable of a machine in QEMU, and returns its name.
func tap(t *testing.T, n int) string {
	t.Helper()
	name := fmt.Sprintf("tap%d", n)
	run(t, "ip", "tuntap", "add", name, "mode", "tap")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	run(t, "ip", "link", "set", name, "master", bridge, "up")
	return name
}

// host is a machine at the bridge that is a namespace alone. Its link is eth0.
type host struct{ pid string }

func plug(t *testing.T, mac string) host {
	t.Helper()
	keeper := exec.Command("sleep", "infinity")
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	h := host{strconv.Itoa(keeper.Process.Pid)}
	near := "v" + h.pid
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", near).Run()
		_ = keeper.Process.Kill()
		_ = keeper.Wait()
	})
	run(t, "ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", h.pid)
	run(t, "ip", "link", "set", near, "master", bridge, "up")
	h.run(t, "ip", "link", "set", "eth0", "up")
	return h
}

func (h host) args(args ...string) []string {
	return append([]string{"nsenter", "-t", h.pid, "-n"}, args...)
}

func (h host) run(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, h.args(args...)...)
}

// router is a machine with dnsmasq, as a network has one that gives out addresses
// and knows nothing of boards: 10.77.0.50 to 60.
func router(t *testing.T) {
	t.Helper()
	h := plug(t, "02:00:00:00:77:fe")
	h.run(t, "ip", "addr", "add", "10.77.0.254/24", "dev", "eth0")
	args := h.args("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file=", "--interface=eth0", "--bind-interfaces",
		"--leasefile-ro", "--no-ping", "--log-dhcp", "--dhcp-range=10.77.0.50,10.77.0.60,255.255.255.0,10m")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("dnsmasq:\n%s", out.String())
		}
	})
}
