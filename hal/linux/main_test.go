package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// childVar names what a re-executed test program is to do.
const childVar = "HAL_TEST_CHILD"

// TestMain runs the tests in network, mount and UTS namespaces of their own:
// they change links, mounts and the host name for real. Without root they run
// where they are, and those that change something skip themselves.
func TestMain(m *testing.M) {
	// What the shell or the go tool left open would show up in the processes
	// that the tests start.
	_ = unix.CloseRange(3, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC)
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	switch os.Getenv(childVar) {
	case "":
		os.Exit(inNamespaces())
	case "tests":
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "make the mounts private:", err)
			os.Exit(1)
		}
		// Duplicate address detection would cost two seconds an address.
		for _, links := range []string{"all", "default"} {
			_ = Host{ProcSys: "/proc/sys"}.SetSysctl("net.ipv6.conf."+links+".accept_dad", "0")
		}
		os.Exit(m.Run())
	case "signalall":
		os.Exit(signalAllChild())
	case "reaper":
		os.Exit(reaperChild())
	default:
		os.Exit(powerChild(os.Getenv(childVar)))
	}
}

// inNamespaces runs this program again with the same arguments and returns its
// exit code.
func inNamespaces() int {
	cmd := self("tests", unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWUTS)
	cmd.Args = os.Args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in namespaces of their own:", err)
		return 1
	}
	return 0
}

// self returns a command that runs this program as the named child.
func self(child string, namespaces uintptr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVar+"="+child)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("not root: in CI these tests have to run")
	}
	t.Skip("not root: namespaces and mounts are out of reach")
}
