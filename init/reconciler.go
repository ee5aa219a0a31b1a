package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"machined/reconcile"
	"machined/reconcile/resource"
)

// reconciler is the node's store, the loop over it, and what the API's goroutines
// need to follow it.
type reconciler struct {
	store *reconcile.Store
	loop  *reconcile.Loop
	by    reconcile.Owner // what is written here, and not by a controller
	epoch string
	seed  uint64 // spreads retries and the like

	mu    sync.Mutex
	moved chan struct{} // closed when the store moves
	told  uint64        // Moves that the watches were told of
}

// newReconciler returns an empty one. panicked is told of controllers that panic.
func newReconciler(panicked func(name string, err error)) (*reconciler, error) {
	var seed [16]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("seed the loop: %w", err)
	}
	c := &reconciler{store: reconcile.NewStore(new(sync.Mutex)), epoch: fmt.Sprintf("%x", seed[8:]), moved: make(chan struct{})}
	c.seed = binary.LittleEndian.Uint64(seed[:])
	var err error
	if c.loop, err = reconcile.NewLoop(c.store, c.seed); err != nil {
		return nil, err
	}
	c.loop.Panicked = func(name string, value any) {
		panicked(name, fmt.Errorf("panic: %v\n%s", value, debug.Stack()))
	}
	c.by, err = c.store.Register("machined",
		reconcile.Output{Kind: resource.MachineConfigKind}, reconcile.Output{Kind: resource.ServiceStatusKind},
		reconcile.Output{Kind: resource.UpgradeStatusKind}, reconcile.Output{Kind: resource.SlotStatusKind}, reconcile.Output{Kind: resource.BootStatusKind},
		reconcile.Output{Kind: resource.InstallStatusKind})
	return c, err
}

// tell wakes the watches if anything has moved since the last call.
func (c *reconciler) tell() {
	moves := c.store.Moves()
	if moves == c.told {
		return
	}
	c.told = moves
	c.mu.Lock()
	close(c.moved)
	c.moved = make(chan struct{})
	c.mu.Unlock()
}

// Watch, Epoch and Moved are a part of api.Node.

func (c *reconciler) Watch(kind resource.Kind, from uint64, out []reconcile.Change) ([]reconcile.Change, uint64) {
	out, at := c.store.Watch(kind, from, out)
	if kind == resource.MemoryStatusKind {
		for i := range out {
			if out[i].Resource != nil {
				out[i].Resource = memoryStatus() // as it is now: to ask costs less than to keep it fresh
			}
		}
	}
	return out, at
}

func (c *reconciler) Epoch() string { return c.epoch }

func (c *reconciler) Moved() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

// reconcile runs what is due and returns how long the loop may sleep.
func (c *reconciler) reconcile(now int64) time.Duration {
	return c.loop.Pass(time.Duration(now)) - time.Duration(now)
}
