// Package netboottest boots boards over a network as their owners do: the real
// `machinectl netboot serve`, real firmware in QEMU, and the real machinectl against
// the node that comes up. There is no outside network.
package netboottest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	partsFlag = flag.String("parts", "../../build/parts", "directory that `make parts` filled")
	ctlFlag   = flag.String("machinectl", "../../build/machinectl", "machinectl program")
)

// patience is a time-out, not a budget: emulation on a busy machine is slow, and
// firmware waits for minutes where it has lost its server.
const patience = 4 * time.Minute

const childVar = "NETBOOTTEST_CHILD"

// TestMain runs the tests in a network namespace of their own, with nothing in it
// but what they make.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 || os.Getenv(childVar) != "" {
		code := m.Run()
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
		os.Exit(code)
	}
	cmd := exec.Command("sh", append([]string{"-c", `ip link set lo up && exec "$0" "$@"`}, os.Args...)...)
	cmd.Env = append(os.Environ(), childVar+"=tests")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(max(exit.ExitCode(), 1))
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in a network namespace:", err)
		os.Exit(1)
	}
}

// need skips a test that cannot run here: without root, a program (a name) or a
// file (a path). In CI it has to run.
func need(t *testing.T, what ...string) {
	t.Helper()
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	for _, w := range append(what, "ip", "nsenter", "/dev/net/tun", *partsFlag+"/parts.json", *ctlFlag) {
		var err error
		if strings.Contains(w, "/") {
			_, err = os.Stat(w)
		} else {
			_, err = exec.LookPath(w)
		}
		if err != nil {
			missing = append(missing, w)
		}
	}
	if len(missing) == 0 {
		return
	}
	why := fmt.Sprintf("missing: %s; `make parts build` as root makes and installs what is needed", strings.Join(missing, ", "))
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// eventually waits for something, and returns how long it took. so tells how it
// stands, for the failure.
func eventually(t *testing.T, what string, is func() (done bool, so string)) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		done, so := is()
		if done {
			return time.Since(begun)
		}
		if time.Since(begun) > patience {
			t.Fatalf("not after %v: %s; it is %s", patience, what, so)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
