// Package testenv says what a test needs of the machine that it runs on.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Need skips a test that cannot run here, for want of a program (a name) or of a
// file (a path). With CI in the environment the test fails instead.
func Need(tb testing.TB, what ...string) {
	tb.Helper()
	skip(tb, missing(what))
}

// NeedRoot is Need for a test that only root can run.
func NeedRoot(tb testing.TB, what ...string) {
	tb.Helper()
	m := missing(what)
	if os.Geteuid() != 0 {
		m = append(m, "root")
	}
	skip(tb, m)
}

func missing(what []string) (m []string) {
	for _, w := range what {
		var err error
		if strings.Contains(w, "/") {
			_, err = os.Stat(w)
		} else {
			_, err = exec.LookPath(w)
		}
		if err != nil {
			m = append(m, w)
		}
	}
	return m
}

func skip(tb testing.TB, missing []string) {
	tb.Helper()
	if len(missing) == 0 {
		return
	}
	why := fmt.Sprintf("missing: %s; `make setup` as root installs the programs, `make parts build` makes the rest", strings.Join(missing, ", "))
	if os.Getenv("CI") != "" {
		tb.Fatal("in CI this has to run; ", why)
	}
	tb.Skip(why)
}
