// Package netlab gives tests a network of their own: namespaces for the test
// program, a bridge, and machines at it. It needs root and iproute2.
package netlab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideVar is set in a test program that Main runs in its namespaces, and in all
// that it starts.
const insideVar = "NETLAB_INSIDE"

// Main runs the tests, for TestMain, and returns the exit code. With root it is in a
// network namespace of their own where only the loopback is up, and in more as
// namespaces asks (CLONE_NEWNS, CLONE_NEWUTS). Mounts made there stay there.
// Without root the tests run where they are, and should say what they need (testenv.NeedRoot).
func Main(m *testing.M, namespaces uintptr) int {
	if os.Geteuid() != 0 {
		return m.Run()
	}
	if os.Getenv(insideVar) == "" {
		return again(namespaces | unix.CLONE_NEWNET)
	}
	if err := prepare(namespaces); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the tests' namespaces:", err)
		return 1
	}
	return m.Run()
}

// again runs this program with its arguments in new namespaces.
func again(namespaces uintptr) int {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = os.Args
	cmd.Env = append(os.Environ(), insideVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1) // -1 of one that a signal has ended
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in namespaces of their own:", err)
		return 1
	}
	return 0
}

func prepare(namespaces uintptr) error {
	if namespaces&unix.CLONE_NEWNS != 0 {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make the mounts private: %w", err)
		}
	}
	// Duplicate address detection would cost two seconds an address.
	for _, links := range []string{"all", "default"} {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+links+"/accept_dad", []byte("0"), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			return fmt.Errorf("switch duplicate address detection off: %w", err)
		}
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("ip link set lo up: %w: %s", err, out)
	}
	return nil
}

// Run runs a program and returns what it says. The test fails with that if the
// program does.
func Run(tb testing.TB, args ...string) string {
	tb.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		tb.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Server runs this test program once more, with that added to its environment, until
// the test ends: a server with a process of its own. TestMain sees it by the
// environment. Server returns the first word that it prints.
func Server(tb testing.TB, env ...string) string {
	tb.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var word string
	if _, err := fmt.Fscanln(out, &word); err != nil {
		tb.Fatal("the server does not start: ", err)
	}
	return word
}
