package main

import (
	"fmt"
	"os"
	"testing"
)

// rootVar makes this program PID 1's first breath: it names the directory that
// becomes the root.
const rootVar = "INIT_TEST_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(rootVar); root != "" {
		fmt.Fprintln(os.Stderr, "become PID 1:", becomeInit(root)) // it returns with an error only
		os.Exit(1)
	}
	os.Exit(m.Run())
}
