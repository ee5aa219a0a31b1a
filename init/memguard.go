package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// memGuard ends the process of a payload that has most of the memory, when little
// is left. It stands in for the bounds of cgroups on a kernel without them: that
// one evicts the programs of all others first, and reads them again from the disk
// for a minute and more, before it ends anybody.
type memGuard struct {
	low     uint64 // of the memory that is available, in units of 1024 bytes
	proc    string // where proc(5) is mounted
	payload string // directory of the cgroup of what may be ended
	kill    func(pid int) error
	say     func(format string, args ...any)
}

const (
	// guardCalm and guardAlert are how often the memory is looked at, depending on
	// whether much is left: an eater takes hundreds of megabytes a second.
	guardCalm, guardAlert = 2 * time.Second, 100 * time.Millisecond
	// guardRest lets a process that was killed give its memory back.
	guardRest = time.Second
)

// guardMemory starts the guard. A third of what is kept from the payload where the
// kernel can is what has to be left.
func (n *node) guardMemory() {
	s := memoryShares(int64(memTotal()))
	g := memGuard{
		low: (memTotal() - uint64(s.payload)) / 3 >> 10, proc: n.at("/proc"), payload: n.at(cgroupDir + payloadCgroup),
		kill: func(pid int) error { return unix.Kill(pid, unix.SIGKILL) }, say: n.say("memory"),
	}
	n.spawn("memory", func() {
		for {
			time.Sleep(g.look())
		}
	})
}

// look returns when to look again.
func (g memGuard) look() time.Duration {
	meminfo, err := os.ReadFile(filepath.Join(g.proc, "meminfo"))
	available := kilobytes(meminfo, "MemAvailable")
	if err != nil || available >= 4*g.low {
		return guardCalm
	}
	if available >= g.low {
		return guardAlert
	}
	p := g.greediest()
	if p.pid == 0 {
		return guardRest // it is not a payload's doing
	}
	if err := g.kill(p.pid); err != nil {
		g.say("Process %d of %s cannot be ended: %v.", p.pid, p.cgroup, err)
		return guardRest
	}
	g.say("Process %d of %s is ended for want of memory: it has %d MiB, and %d MiB are left for all.", p.pid, p.cgroup, p.anonKB>>10, available>>10)
	return guardRest
}

// greedy is a process of a payload, and its memory that cannot be evicted in units
// of 1024 bytes.
type greedy struct {
	pid    int
	cgroup string
	anonKB uint64
}

func (g memGuard) greediest() greedy {
	var most greedy
	// What ends meanwhile is passed over.
	_ = filepath.WalkDir(g.payload, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for word := range strings.FieldsSeq(string(pids)) {
			pid, err := strconv.Atoi(word)
			if err != nil || pid <= 1 {
				continue
			}
			status, _ := os.ReadFile(filepath.Join(g.proc, fmt.Sprint(pid), "status"))
			if anon := kilobytes(status, "RssAnon") + kilobytes(status, "RssShmem"); anon > most.anonKB {
				most = greedy{pid: pid, cgroup: strings.TrimPrefix(dir, filepath.Dir(g.payload)), anonKB: anon}
			}
		}
		return nil
	})
	return most
}
