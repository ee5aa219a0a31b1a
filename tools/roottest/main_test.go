package roottest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"machined/hal/linux"
)

const childVar = "ROOTTEST_CHILD"

// TestMain runs the tests in network, mount and UTS namespaces of their own.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	if os.Getenv(childVar) == "" {
		os.Exit(inNamespaces())
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "make the mounts private:", err)
		os.Exit(1)
	}
	// Duplicate address detection would cost two seconds an address.
	for _, links := range []string{"all", "default"} {
		_ = linux.Host{ProcSys: "/proc/sys"}.SetSysctl("net.ipv6.conf."+links+".accept_dad", "0")
	}
	os.Exit(m.Run())
}

func inNamespaces() int {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = os.Args
	cmd.Env = append(os.Environ(), childVar+"=tests")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS, Pdeathsig: syscall.SIGKILL,
	}
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

// need skips a test that cannot run here: without root, or without a program.
// In CI it has to run.
func need(t *testing.T, programs ...string) {
	t.Helper()
	missing := ""
	if os.Geteuid() != 0 {
		missing = "root"
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing += " " + p
		}
	}
	if missing == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing: %s; 'make setup' as root installs the programs", missing)
	}
	t.Skipf("missing: %s", missing)
}
