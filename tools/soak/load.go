package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"machined/api/client"
	"machined/api/machinepb"
	"machined/tools/lab"
	"machined/tools/qemu"
)

// load is what clients and cables do to the node. That they fail now and then is
// part of it.
type load struct {
	vm     *qemu.VM
	bundle string
	wg     sync.WaitGroup
}

func (l *load) start(ctx context.Context) {
	l.wg.Go(func() { l.flap(ctx) })
	for range 3 {
		l.wg.Go(func() { l.come(ctx, watchServices) })
	}
	l.wg.Go(func() { l.come(ctx, followFlood) })
	l.wg.Go(func() { l.come(ctx, listAll) })
}

func (l *load) wait() { l.wg.Wait() }

// flap moves the cable of the second NIC.
func (l *load) flap(ctx context.Context) {
	for in := false; pause(ctx, flapEvery); in = !in {
		_ = l.vm.PlugCable(in)
	}
}

// come has a client come, do something for some seconds, and go, again and
// again.
func (l *load) come(ctx context.Context, do func(context.Context, *client.Client)) {
	for pause(ctx, time.Duration(rand.Int64N(int64(2*time.Second)))) {
		c, err := lab.Dial(l.vm, l.bundle)
		if err != nil {
			continue
		}
		visit, leave := context.WithTimeout(ctx, time.Second+time.Duration(rand.Int64N(int64(8*time.Second))))
		do(visit, c)
		leave()
		c.Close()
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func watchServices(ctx context.Context, c *client.Client) {
	_ = c.Watch(ctx, "ServiceStatus", "", func(*machinepb.WatchEvent) error { return nil }, func(error, time.Duration) {})
}

// errEnough ends a log that is read too slowly to keep up with.
var errEnough = errors.New("enough")

// followFlood reads slower than the service writes.
func followFlood(ctx context.Context, c *client.Client) {
	read := func(*machinepb.LogRecord) error {
		if !pause(ctx, 5*time.Millisecond) {
			return errEnough
		}
		return nil
	}
	_ = c.Logs(ctx, "flood", true, 0, read, func(uint64) error { return nil })
}

func listAll(ctx context.Context, c *client.Client) {
	for _, kind := range []string{"ServiceStatus", "LinkStatus", "LeaseStatus", "PodStatus", "ControllerStatus"} {
		_, _ = c.List(ctx, kind, "")
	}
	_, _ = c.Services(ctx)
}
