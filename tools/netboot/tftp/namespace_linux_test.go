package tftp

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

const inNamespace = "TFTP_TEST_NAMESPACE"

// TestMain runs the tests in a network namespace of their own where it can:
// dnsmasq serves TFTP at port 69 alone, which others may have.
func TestMain(m *testing.M) {
	worker := strings.Contains(strings.Join(os.Args, " "), "-test.fuzzworker")
	if os.Getenv(inNamespace) == "server" {
		fmt.Fprintln(os.Stderr, benchChild())
		os.Exit(1)
	}
	if worker || os.Getenv(inNamespace) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sh", append([]string{"-c", `ip link set lo up && exec "$0" "$@"`}, os.Args...)...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "no network namespace for the tests, dnsmasq is left out:", err)
		os.Exit(m.Run())
	}
	var exit *exec.ExitError
	if err = cmd.Wait(); errors.As(err, &exit) {
		os.Exit(max(exit.ExitCode(), 1))
	} else if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// needDnsmasq returns why there is no dnsmasq to compare with, or nothing.
func needDnsmasq() string {
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		return err.Error()
	}
	if os.Getenv(inNamespace) == "" {
		return "it needs a network namespace: run as root"
	}
	return ""
}
