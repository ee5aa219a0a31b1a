package linux

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"machined/tools/netlab"
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
	switch os.Getenv(childVar) {
	case "":
		os.Exit(netlab.Main(m, unix.CLONE_NEWNS|unix.CLONE_NEWUTS))
	case "signalall":
		os.Exit(signalAllChild())
	case "reaper":
		os.Exit(reaperChild())
	default:
		os.Exit(powerChild(os.Getenv(childVar)))
	}
}

// self returns a command that runs this program as the named child.
func self(child string, namespaces uintptr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVar+"="+child)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	return cmd
}
