package main

import (
	"fmt"

	"machined/hal"
)

// The cgroups of a node. What must go on is beside what may be ended, so that
// each has bounds of its own.
const (
	initCgroup     = "/init"     // machined
	servicesCgroup = "/services" // a cgroup each
	containersRoot = "/runtime"
)

// shares says how the memory of a node is divided, in bytes.
type shares struct {
	// payload is the most that all services have together, and the same for all
	// pods: they meet their own bound before the kernel has to choose whom to end.
	payload int64
	// machined and runtime are what the kernel does not take from them.
	machined, runtime int64
}

// memoryShares divides the memory of a machine. An eighth is left for machined,
// the runtime and the kernel's own, 64 to 256 MiB of it, and never more than half.
func memoryShares(total int64) shares {
	const mib = 1 << 20
	reserve := min(max(total/8, 64*mib), 256*mib, total/2)
	return shares{payload: total - reserve, machined: reserve / 4, runtime: reserve / 2}
}

// makeCgroups makes the cgroups of the node and moves machined out of the root
// cgroup, which must be empty before controllers are handed down. The kernel never
// ends PID 1 for want of memory, whatever its oom_score_adj, which its children
// would inherit: it stays 0.
func (n *node) makeCgroups() error {
	if n.cgroups == nil {
		return nil
	}
	if _, err := n.cgroups.Create(initCgroup, hal.CgroupLimits{}); err != nil {
		return err
	}
	if err := n.cgroups.Enter(initCgroup, 0); err != nil {
		return err
	}
	s := memoryShares(int64(memoryStatus().MemTotalKB) << 10)
	missing := ""
	for _, c := range []struct {
		path   string
		limits hal.CgroupLimits
	}{
		{initCgroup, hal.CgroupLimits{MemoryMin: s.machined, CPUWeight: 200}},
		{containersRoot, hal.CgroupLimits{MemoryMin: s.runtime, CPUWeight: 200}},
		{servicesCgroup, hal.CgroupLimits{MemoryMax: s.payload}},
		{podsCgroup, hal.CgroupLimits{MemoryMax: s.payload}},
	} {
		lacks, err := n.cgroups.Create(c.path, c.limits)
		if err != nil {
			n.log.Printf("cgroups", "%v.", err)
		}
		if missing == "" {
			missing = lacks
		}
	}
	if missing != "" {
		return fmt.Errorf("a payload can take all memory and CPU time: the kernel has no %s", missing)
	}
	return nil
}
