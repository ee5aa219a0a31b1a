package netlab

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Bridge is the name of a switch in the test's network namespace.
type Bridge string

// Add makes the bridge with an address of the test's own, in CIDR notation. It is
// gone after the test.
func (b Bridge) Add(tb testing.TB, address string) {
	tb.Helper()
	Run(tb, "ip", "link", "add", string(b), "type", "bridge")
	tb.Cleanup(func() { _ = exec.Command("ip", "link", "del", string(b)).Run() })
	Run(tb, "ip", "addr", "add", address, "dev", string(b))
	Run(tb, "ip", "link", "set", string(b), "up")
}

// Plug adds a machine to the bridge. Its link is eth0, with that hardware address
// and no other.
func (b Bridge) Plug(tb testing.TB, mac string) Host {
	tb.Helper()
	h := NewHost(tb)
	near := "v" + h.pid
	tb.Cleanup(func() { _ = exec.Command("ip", "link", "del", near).Run() })
	Run(tb, "ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", h.pid)
	Run(tb, "ip", "link", "set", near, "master", string(b), "up")
	h.Run(tb, "ip", "link", "set", "eth0", "up")
	return h
}

// Tap makes the far end of the cable of a machine in QEMU.
func (b Bridge) Tap(tb testing.TB, name string) {
	tb.Helper()
	Run(tb, "ip", "tuntap", "add", name, "mode", "tap")
	tb.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	Run(tb, "ip", "link", "set", name, "master", string(b), "up")
}

// Host is another machine: a network namespace.
type Host struct{ pid string } // of a process that keeps it

// NewHost makes a machine without a link.
func NewHost(tb testing.TB) Host {
	tb.Helper()
	keeper := exec.Command("sleep", "infinity")
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := keeper.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = keeper.Process.Kill()
		_ = keeper.Wait()
	})
	return Host{strconv.Itoa(keeper.Process.Pid)}
}

// PID names the machine to `ip … netns`.
func (h Host) PID() string { return h.pid }

// Command returns a command that runs on the machine, and ends with the test
// program.
func (h Host) Command(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", h.pid, "-n"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Run is Run on the machine.
func (h Host) Run(tb testing.TB, args ...string) string {
	tb.Helper()
	return Run(tb, h.Command(args...).Args...)
}

// Dnsmasq runs dnsmasq on the machine until the test ends, with a DHCP range on
// eth0 and what is asked for besides. What it said is in the log of a test that fails.
func (h Host) Dnsmasq(tb testing.TB, address string, options ...string) {
	tb.Helper()
	h.Run(tb, "ip", "addr", "add", address, "dev", "eth0")
	cmd := h.Command(append([]string{
		"dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file=", "--interface=eth0", "--bind-interfaces",
		"--leasefile-ro", "--no-ping", "--log-dhcp",
	}, options...)...)
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if tb.Failed() {
			tb.Logf("dnsmasq:\n%s", out.String())
		}
	})
}

// Inside calls f in the machine's network, for the sockets that it opens.
func (h Host) Inside(tb testing.TB, f func()) {
	tb.Helper()
	runtime.LockOSThread()
	// The thread must live on: processes that it started would die with it.
	defer runtime.UnlockOSThread()
	back, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		tb.Fatal(err)
	}
	defer back.Close()
	ns, err := os.Open("/proc/" + h.pid + "/ns/net")
	if err != nil {
		tb.Fatal(err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := unix.Setns(int(back.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // nothing else may run on this thread
		}
	}()
	f()
}
