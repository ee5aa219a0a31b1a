package roottest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"machined/tools/netlab"
)

// TestMain runs the tests in network, mount and UTS namespaces of their own.
func TestMain(m *testing.M) { os.Exit(netlab.Main(m, unix.CLONE_NEWNS|unix.CLONE_NEWUTS)) }
