// Package conformance checks the core: that board detection, the boot facts,
// the simulated drivers, the store and the loop keep what their comments
// promise.
//
// The same cases run as an ordinary Go test and, compiled with TinyGo, inside
// of WebAssembly, so that code which one compiler takes and the other gets
// wrong is seen. Hence no package testing, and no recover, which TinyGo does
// not have there.
package conformance

import (
	"errors"
	"slices"
	"strconv"
)

// T is told what is wrong. A case goes on after that, or returns.
type T interface{ Fail(message string) }

// Case is one promise.
type Case struct {
	Name string // group: what is promised
	Run  func(t T)
}

// Cases returns all cases in the order in which they run. Each stands for
// itself.
func Cases() []Case {
	return slices.Concat(
		boardCases(),
		bootCases(),
		clockCases(),
		hostCases(),
		powerCases(),
		diskCases(),
		mountCases(),
		linkCases(),
		processCases(),
		containerCases(),
		storeCases(),
		loopCases(),
	)
}

// expect checks an error against the one that is promised; nil for success.
func expect(t T, call string, got, want error) {
	if !errors.Is(got, want) {
		t.Fail(call + " = " + message(got) + "; want " + message(want))
	}
}

func message(err error) string {
	if err == nil {
		return "success"
	}
	return err.Error()
}

// check fails with what, a sentence, unless it is so.
func check(t T, so bool, what string) {
	if !so {
		t.Fail("not so: " + what)
	}
}

func sameText(t T, what, got, want string) {
	if got != want {
		t.Fail(what + " = " + strconv.Quote(got) + "; want " + strconv.Quote(want))
	}
}

func sameNumber[N int | int64 | uint32](t T, what string, got, want N) {
	if got != want {
		t.Fail(what + " = " + strconv.FormatInt(int64(got), 10) + "; want " + strconv.FormatInt(int64(want), 10))
	}
}

const (
	second = int64(1e9) // nanoseconds
	mib    = int64(1 << 20)
	y2026  = 1767225600 * second
)
