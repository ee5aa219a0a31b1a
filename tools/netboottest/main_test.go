// Package netboottest boots boards over a network as their owners do: the real
// `machinectl netboot serve`, real firmware in QEMU, and the real machinectl against
// the node that comes up. There is no outside network.
package netboottest

import (
	"flag"
	"os"
	"testing"
	"time"

	"machined/tools/netlab"
	"machined/tools/testenv"
)

var (
	partsFlag = flag.String("parts", "../../build/parts", "directory that `make parts` filled")
	ctlFlag   = flag.String("machinectl", "../../build/machinectl", "machinectl program")
)

// patience is a time-out, not a budget: emulation on a busy machine is slow, and
// firmware waits for minutes where it has lost its server.
const patience = 4 * time.Minute

// TestMain runs the tests in a network namespace of their own, with nothing in it
// but what they make.
func TestMain(m *testing.M) {
	flag.Parse()
	code := netlab.Main(m, 0)
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// need skips a test that cannot run here: without root, what boards need, or what is
// named besides, a program or a file.
func need(t *testing.T, what ...string) {
	t.Helper()
	testenv.NeedRoot(t, append(what, "ip", "nsenter", "/dev/net/tun", *partsFlag+"/parts.json", *ctlFlag)...)
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
