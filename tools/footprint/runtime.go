package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"machined/api/client"
	"machined/tools/lab"
	"machined/tools/qemu"
)

const (
	// restAfter is how long a node is left alone before it counts as at rest: a
	// runtime that has just become ready is asked more often.
	restAfter = 2*time.Minute + 30*time.Second
	// restWindow is how long it is watched then.
	restWindow = time.Minute
)

// bootRuntime measures a node whose container runtime is ready and has nothing
// to do.
func (f *figures) bootRuntime(node *lab.Node) error {
	return f.withRuntime(node, func(ctx context.Context, vm *qemu.VM, c *client.Client) error {
		f.runtimeReady = time.Since(vm.Started())
		time.Sleep(settle)
		if err := f.readRuntime(ctx, c); err != nil {
			return err
		}
		time.Sleep(restAfter)
		begin, err := one(ctx, c, "MemoryStatus", "memory")
		if err != nil {
			return err
		}
		at := time.Now()
		time.Sleep(restWindow)
		end, err := one(ctx, c, "MemoryStatus", "memory")
		if err != nil {
			return err
		}
		window := time.Since(at).Seconds()
		wakeUps, err := moved(begin, end, "wake_ups")
		if err != nil {
			return err
		}
		cpu, err := moved(begin, end, "cpu_ms")
		f.wakeUps, f.cpuPercent = wakeUps/window, cpu/10/window
		return err
	})
}

// readRuntime reads what is left of the memory, and what containerd has.
func (f *figures) readRuntime(ctx context.Context, c *client.Client) error {
	memory, err := one(ctx, c, "MemoryStatus", "memory")
	if err != nil {
		return err
	}
	if f.runtimeAvailable, err = strconv.ParseInt(memory["mem_available_kb"], 10, 64); err != nil {
		return fmt.Errorf("read the memory that is available: %w", err)
	}
	services, err := c.Services(ctx)
	if err != nil {
		return err
	}
	for _, s := range services {
		if s.GetId() == "containerd" {
			f.containerdAnon = int64(s.GetRssAnonBytes() >> 10)
			return nil
		}
	}
	return fmt.Errorf("the node has no service containerd")
}

// bootPod measures what is left beside one pod.
func (f *figures) bootPod(node *lab.Node) error {
	return f.withRuntime(node, func(ctx context.Context, _ *qemu.VM, c *client.Client) error {
		for {
			pod, err := one(ctx, c, "PodStatus", "guest")
			if err == nil && pod["ready"] == "true" {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("wait for the pod: %w; it is %v", ctx.Err(), pod)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(settle)
		memory, err := one(ctx, c, "MemoryStatus", "memory")
		if err != nil {
			return err
		}
		f.podAvailable, err = strconv.ParseInt(memory["mem_available_kb"], 10, 64)
		return err
	})
}

// withRuntime boots a node and waits until its runtime is ready.
func (f *figures) withRuntime(node *lab.Node, measure func(context.Context, *qemu.VM, *client.Client) error) error {
	vm, err := start(node, nil, nil)
	if err != nil {
		return err
	}
	defer vm.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	if _, err := lab.WaitAPI(ctx, vm, node.Bundle, ""); err != nil {
		return err
	}
	c, err := lab.Dial(vm, node.Bundle)
	if err != nil {
		return err
	}
	defer c.Close()
	var last map[string]string
	for last["ready"] != "true" {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the container runtime: %w; it is %v", ctx.Err(), last)
		}
		time.Sleep(100 * time.Millisecond)
		if last, err = one(ctx, c, "RuntimeStatus", "containerd"); err != nil {
			last = map[string]string{"error": err.Error()}
		}
	}
	return measure(ctx, vm, c)
}

// one returns the fields of a resource.
func one(ctx context.Context, c *client.Client, kind, id string) (map[string]string, error) {
	all, err := lab.Fields(ctx, c, kind)
	if err != nil {
		return nil, err
	}
	if fields, ok := all[id]; ok {
		return fields, nil
	}
	return nil, fmt.Errorf("the node has no %s %s", kind, id)
}

// moved is by how much a counter has moved.
func moved(begin, end map[string]string, key string) (float64, error) {
	a, err := strconv.ParseFloat(begin[key], 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	b, err := strconv.ParseFloat(end[key], 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	return b - a, nil
}
