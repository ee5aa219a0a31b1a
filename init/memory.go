package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"machined/reconcile"
	"machined/reconcile/resource"
)

// memoryStatus reads the kernel's accounts. A value that is missing is 0.
func memoryStatus() resource.MemoryStatus {
	meminfo, _ := os.ReadFile("/proc/meminfo")
	status, _ := os.ReadFile("/proc/self/status")
	return resource.MemoryStatus{
		MemTotalKB: kilobytes(meminfo, "MemTotal"), MemAvailableKB: kilobytes(meminfo, "MemAvailable"),
		RSSAnonKB: kilobytes(status, "RssAnon"), RSSFileKB: kilobytes(status, "RssFile"),
	}
}

// kilobytes finds a line such as "MemTotal:  411844 kB".
func kilobytes(text []byte, key string) uint64 {
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != key {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return 0
}

// memory publishes MemoryStatus.
type memory struct{}

func (memory) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name: "memory", Outputs: []reconcile.Output{{Kind: resource.MemoryStatusKind}}, Interval: 10 * time.Second,
	}
}

func (memory) Reconcile(r *reconcile.Run) error { return r.Store.Memory.Put(r.By, memoryStatus()) }
