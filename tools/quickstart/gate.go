package main

import (
	"io"
	"sync"
)

// gate holds output back until it is opened, and then lets through what was
// held and what comes.
type gate struct {
	to io.Writer

	mu     sync.Mutex
	held   []byte
	opened bool
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.opened {
		g.held = append(g.held, b...)
		return len(b), nil
	}
	return g.to.Write(b)
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = true
	_, _ = g.to.Write(g.held)
	g.held = nil
}
