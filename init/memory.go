package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"machined/reconcile"
	"machined/reconcile/resource"
)

// memTotal is the memory of the machine in bytes, which never changes.
func memTotal() uint64 {
	meminfo, _ := os.ReadFile("/proc/meminfo")
	return kilobytes(meminfo, "MemTotal") << 10
}

// memoryStatus reads the kernel's accounts. A value that is missing is 0.
func memoryStatus() resource.MemoryStatus {
	meminfo, _ := os.ReadFile("/proc/meminfo")
	status, _ := os.ReadFile("/proc/self/status")
	return resource.MemoryStatus{
		MemTotalKB: kilobytes(meminfo, "MemTotal"), MemAvailableKB: kilobytes(meminfo, "MemAvailable"),
		RSSAnonKB: kilobytes(status, "RssAnon"), RSSFileKB: kilobytes(status, "RssFile"),
		WakeUps: wakeUps("/proc/self/task"), CPUMS: cpuTime(), Goroutines: uint64(runtime.NumGoroutine()), OpenFiles: openFiles(),
	}
}

// cpuTime is what the program has used so far, in milliseconds.
func cpuTime() uint64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return uint64(u.Utime.Nano()+u.Stime.Nano()) / uint64(time.Millisecond)
}

// openFiles leaves out the one that it needs to count them.
func openFiles() uint64 {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil || len(files) == 0 {
		return 0
	}
	return uint64(len(files) - 1)
}

// wakeUps adds up the voluntary context switches of the threads: each is one
// that went to sleep, and so had woken up. Threads that have ended are missing.
func wakeUps(tasks string) uint64 {
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return 0
	}
	sum := uint64(0)
	for _, thread := range threads {
		status, _ := os.ReadFile(filepath.Join(tasks, thread.Name(), "status"))
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
				sum += n
			}
		}
	}
	return sum
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

// memory publishes MemoryStatus. Who asks gets the values of the moment, see
// Watch; this is for those who watch.
type memory struct{}

func (memory) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name: "memory", Outputs: []reconcile.Output{{Kind: resource.MemoryStatusKind}}, Interval: time.Minute,
	}
}

func (memory) Reconcile(r *reconcile.Run) error { return r.Store.Memory.Put(r.By, memoryStatus()) }
