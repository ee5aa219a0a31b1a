package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"machined/hal"
)

// The cgroups of a node. What must go on is beside what may be ended, so that
// each has bounds of its own.
const (
	initCgroup     = "/init" // machined
	containersRoot = "/runtime"
	runtimeCgroup  = containersRoot + "/containerd"
	// payloadCgroup is what may be ended: services, a cgroup each, and pods.
	payloadCgroup  = "/payload"
	servicesCgroup = payloadCgroup + "/services"
	podsCgroup     = payloadCgroup + "/pods"
)

// shares says how the memory of a node is divided, in bytes.
type shares struct {
	// payload is the most that services and pods have together: they meet their
	// own bound before the kernel has to choose whom to end.
	payload int64
	// each is the most that one service or container has unless its config says
	// otherwise. It is less than payload: whoever takes all there is then meets a
	// bound of his own, where there is nothing to reclaim but what is his, and is
	// ended at once. At the bound of all, the kernel first evicts the programs of
	// the others, and reads them from the card again, for minutes.
	each int64
	// machined and runtime are what the kernel does not take from them.
	machined, runtime int64
}

// memoryShares divides the memory of a machine. A quarter is left for machined,
// the runtime and the kernel's own, 96 to 256 MiB of it, and never more than half.
// It has to hold their programs, too: with less, the kernel reads those from the
// card again and again before it ends a payload that takes all there is.
func memoryShares(total int64) shares {
	const mib = 1 << 20
	reserve := min(max(total/4, 96*mib), 256*mib, total/2)
	payload := total - reserve
	return shares{payload: payload, each: payload / 4 * 3, machined: reserve / 4, runtime: reserve / 2}
}

// enterInit moves machined into a cgroup of its own, out of the root, which must
// be empty before controllers are handed down. It comes before the program is read
// from the card: its pages belong to the cgroup that has them read, and with it are
// kept from being evicted.
func (n *node) enterInit() error {
	if n.cgroups == nil {
		return nil
	}
	if _, err := n.cgroups.Create(initCgroup, hal.CgroupLimits{MemoryMin: machineShares().machined, CPUWeight: 200}); err != nil {
		return err
	}
	return n.cgroups.Enter(initCgroup, 0)
}

func machineShares() shares { return memoryShares(int64(memTotal())) }

// makeCgroups makes the cgroups of the node. The kernel never ends PID 1 for want
// of memory, whatever its oom_score_adj, which its children would inherit: it
// stays 0.
func (n *node) makeCgroups() error {
	if n.cgroups == nil {
		return nil
	}
	n.endThrashing()
	if err := n.enterInit(); err != nil {
		return err
	}
	s := machineShares()
	missing := ""
	for _, c := range []struct {
		path   string
		limits hal.CgroupLimits
	}{
		{containersRoot, hal.CgroupLimits{MemoryMin: s.runtime, CPUWeight: 200}},
		{payloadCgroup, hal.CgroupLimits{MemoryMax: s.payload}},
		{servicesCgroup, hal.CgroupLimits{}},
		{podsCgroup, hal.CgroupLimits{}},
	} {
		lacks, err := n.cgroups.Create(c.path, c.limits)
		if err != nil {
			n.log.Printf("cgroups", "%v.", err)
		}
		if c.path == payloadCgroup {
			n.memoryLimits = err == nil && !strings.Contains(lacks, "memory.max")
		}
		if missing == "" {
			missing = lacks
		}
	}
	if missing != "" {
		n.log.Printf("limits", "A payload can take more than its share: the kernel has no %s.", missing)
	}
	if n.memoryLimits {
		return nil
	}
	// Nothing keeps the kernel from evicting this program to the last page for a
	// payload that takes all there is. It would be read again at every step, and
	// the watchdog not be fed.
	n.guardMemory()
	_, err := n.processes.LockProgram()
	return err
}

const (
	minTTL = "/sys/kernel/mm/lru_gen/min_ttl_ms"
	// workingSet is the time in milliseconds within which a page that was used is
	// not evicted. A machine that would have to ends a process instead (kernel,
	// multigen_lru.rst), before it does nothing but read its programs from the card.
	workingSet = "1000"
)

// endThrashing has the kernel end the greedy before all others stand still. Not
// every kernel can.
func (n *node) endThrashing() {
	err := os.WriteFile(n.at(minTTL), []byte(workingSet), 0o644)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.log.Printf("cgroups", "A machine out of memory may thrash: %v.", err)
	}
}
