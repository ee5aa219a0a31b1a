package main

import (
	"bytes"
	"context"
	"testing"

	"machined/tools/netboot/registry"
)

func TestStatusText(t *testing.T) {
	loading := registry.Board{ID: "b8-27", Stage: registry.Loading, File: "kernel8.img", Bytes: 500, Total: 1000, Percent: 50, Speed: 2_500_000}
	whole := loading
	whole.Bytes, whole.Percent = 1000, 100
	installing := registry.Board{ID: "52-54", Stage: registry.Installing, Percent: 7}
	for _, c := range []struct {
		boards []registry.Board
		width  int
		want   string
	}{
		{nil, 80, ""},
		{[]registry.Board{whole, {ID: "x", Stage: registry.Ready, Bytes: 1, Total: 2}, {ID: "y", Stage: registry.Loading}}, 80, ""},
		{[]registry.Board{loading}, 80, "b8-27 kernel8.img 50% 2.5 MB/s"},
		{[]registry.Board{loading, installing}, 80, "2 boards: b8-27 kernel8.img 50% 2.5 MB/s | 52-54 installs 7%"},
		{[]registry.Board{loading}, 12, "b8-27 kernel"},
		{[]registry.Board{loading}, -1, ""},
	} {
		if got := statusText(c.boards, c.width); got != c.want {
			t.Errorf("statusText(%+v, %d) = %q; want %q", c.boards, c.width, got, c.want)
		}
	}
}

// TestStatusLine keeps the line below the log, and leaves nothing behind.
func TestStatusLine(t *testing.T) {
	if newStatusLine(new(bytes.Buffer)) != nil {
		t.Error("newStatusLine() of what is no terminal is a line; want nil")
	}
	var out bytes.Buffer
	l := &statusLine{w: &out, width: func() int { return 80 }}
	write := func(s string) {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("Write(%q) = %d, %v", s, n, err)
		}
	}
	write("first\n")
	l.show("50%")
	l.show("50%")
	write("second\n")
	l.show("")
	write("third\n")
	if want := "first\n\r\x1b[K50%\r\x1b[Ksecond\n50%\r\x1b[Kthird\n"; out.String() != want {
		t.Errorf("drawn is %q; want %q", out.String(), want)
	}

	out.Reset()
	ctx, cancel := context.WithCancel(context.Background())
	never := make(chan struct{})
	l.follow(ctx, func(uint64) ([]registry.Board, uint64, <-chan struct{}) {
		cancel() // it is drawn once, and then all ends
		return []registry.Board{{ID: "b", Stage: registry.Installing, Percent: 1}}, 1, never
	})
	if want := "\r\x1b[Kb installs 1%\r\x1b[K"; out.String() != want {
		t.Errorf("follow draws %q; want %q", out.String(), want)
	}
}
