package fake

import (
	"strings"

	"machined/hal"
)

// Cgroup is a simulated cgroup.
type Cgroup struct {
	Path   string
	Limits hal.CgroupLimits
	// Entered are the numbers of processes that were moved there.
	Entered []int

	oomKills uint64
}

// Cgroups is a simulated hal.Cgroups over simulated processes.
type Cgroups struct {
	Faults
	// Missing are the limits that the kernel has not, such as "memory.max".
	Missing []string

	processes *Processes
	groups    []*Cgroup
}

// NewCgroups returns an empty hierarchy for processes.
func NewCgroups(processes *Processes) *Cgroups { return &Cgroups{processes: processes} }

// Find returns the cgroup at path, or nil.
func (c *Cgroups) Find(path string) *Cgroup {
	for _, g := range c.groups {
		if g.Path == path {
			return g
		}
	}
	return nil
}

// Create implements hal.Cgroups.
func (c *Cgroups) Create(path string, limits hal.CgroupLimits) (string, error) {
	if err := c.failing("Create"); err != nil {
		return "", err
	}
	if len(path) < 2 || path[0] != '/' || strings.HasSuffix(path, "/") || strings.Contains(path, "..") || strings.Contains(path, "//") {
		return "", hal.ErrInvalid
	}
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' || c.Find(path[:i]) != nil {
			continue
		}
		c.groups = append(c.groups, &Cgroup{Path: path[:i]})
	}
	c.Find(path).Limits = limits
	var missing []string
	for _, name := range wanted(limits) {
		for _, absent := range c.Missing {
			if name == absent {
				missing = append(missing, name)
			}
		}
	}
	return strings.Join(missing, " "), nil
}

// wanted names the limits that are set.
func wanted(l hal.CgroupLimits) []string {
	var out []string
	for _, s := range []struct {
		set  bool
		name string
	}{
		{l.MemoryMin > 0, "memory.min"}, {l.MemoryLow > 0, "memory.low"}, {l.MemoryHigh > 0, "memory.high"}, {l.MemoryMax > 0, "memory.max"},
		{l.CPUWeight > 0, "cpu.weight"}, {l.CPUQuota > 0, "cpu.max"}, {l.PIDsMax > 0, "pids.max"}, {l.IOWeight > 0, "io.weight"},
		{l.OOMGroup, "memory.oom.group"},
	} {
		if s.set {
			out = append(out, s.name)
		}
	}
	return out
}

// Enter implements hal.Cgroups.
func (c *Cgroups) Enter(path string, pid int) error {
	if err := c.failing("Enter"); err != nil {
		return err
	}
	g := c.Find(path)
	if g == nil || pid != 0 && c.processes.Find(pid) == nil {
		return hal.ErrNotFound
	}
	if p := c.processes.Find(pid); p != nil {
		p.Spec.Cgroup = path
	}
	g.Entered = append(g.Entered, pid)
	return nil
}

// inside returns the processes in a cgroup and below.
func (c *Cgroups) inside(path string) []*Process {
	var out []*Process
	for _, p := range c.processes.Running() {
		if p.Spec.Cgroup == path || strings.HasPrefix(p.Spec.Cgroup, path+"/") {
			out = append(out, p)
		}
	}
	return out
}

// Kill implements hal.Cgroups.
func (c *Cgroups) Kill(path string) error {
	if err := c.failing("Kill"); err != nil {
		return err
	}
	if c.Find(path) == nil {
		return hal.ErrNotFound
	}
	for _, p := range c.inside(path) {
		_ = c.processes.Signal(p.PID, sigKill)
	}
	return nil
}

// OOM kills what is in the cgroup as the kernel does for want of memory, and
// reports whether there was something.
func (c *Cgroups) OOM(path string) bool {
	found := c.inside(path)
	for _, p := range found {
		c.Find(path).oomKills++
		c.processes.Exit(p.PID, hal.ExitStatus{Signal: sigKill})
	}
	return len(found) > 0
}

// Status implements hal.Cgroups.
func (c *Cgroups) Status(path string) (hal.CgroupStatus, error) {
	if err := c.failing("Status"); err != nil {
		return hal.CgroupStatus{}, err
	}
	g := c.Find(path)
	if g == nil {
		return hal.CgroupStatus{}, hal.ErrNotFound
	}
	return hal.CgroupStatus{Populated: len(c.inside(path)) > 0, OOMKills: g.oomKills}, nil
}

// Remove implements hal.Cgroups.
func (c *Cgroups) Remove(path string) error {
	if err := c.failing("Remove"); err != nil {
		return err
	}
	if len(c.inside(path)) > 0 {
		return ErrBusy
	}
	kept := c.groups[:0]
	for _, g := range c.groups {
		if g.Path != path && !strings.HasPrefix(g.Path, path+"/") {
			kept = append(kept, g)
		}
	}
	c.groups = kept
	return nil
}

var _ hal.Cgroups = (*Cgroups)(nil)
