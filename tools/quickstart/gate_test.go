package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestGate(t *testing.T) {
	var out bytes.Buffer
	g := &gate{to: &out}
	for _, s := range []string{"one ", "two "} {
		if n, err := fmt.Fprint(g, s); n != len(s) || err != nil {
			t.Errorf("Write(%q) = %d, %v; want %d", s, n, err, len(s))
		}
	}
	if out.Len() != 0 {
		t.Errorf("a shut gate let %q through", out.String())
	}
	g.open()
	g.open() // no harm
	fmt.Fprint(g, "three")
	if got := out.String(); got != "one two three" {
		t.Errorf("the gate let %q through; want all, once and in order", got)
	}
}

// TestGateWhileWritten opens the gate under a console that goes on printing.
func TestGateWhileWritten(t *testing.T) {
	var out bytes.Buffer
	g := &gate{to: &out}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 100 {
				fmt.Fprintln(g, "a line")
			}
		})
	}
	g.open()
	writers.Wait()
	if got := strings.Count(out.String(), "a line\n"); got != 400 {
		t.Errorf("the gate let %d lines through; want 400", got)
	}
}
