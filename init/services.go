package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"machined/hal"
	"machined/init/config"
	"machined/init/probe"
	"machined/init/supervise"
)

// newSupervisor gives the node a supervisor without services.
func (n *node) newSupervisor() {
	n.supervisor = supervise.New(supervise.Drivers{
		Processes: n.processes, Jobs: n.jobs, Cgroups: n.cgroups,
		Prober: &probe.Prober{Jobs: n.jobs, Processes: n.processes, Cgroups: n.cgroups},
		Conds:  &conditions{store: n.store, untimed: func() bool { return n.loaded.Config.Machine.Time.Disabled }},
		Output: n.output, Tail: n.tail, Kick: n.kick, Seed: n.seed,
	}, nil)
	n.running.Store(&running{n.supervisor})
}

// prepareServices hands the services of the config to the supervisor; the loop
// starts them. It may do so again with another config.
func (n *node) prepareServices() error {
	var services []supervise.Service
	if runtime := n.runtimeService(); runtime != nil {
		services = append(services, *runtime)
	}
	each := machineShares().each
	for _, c := range config.StartOrder(n.loaded.Config.Machine.Services) {
		s, err := service(c)
		if err != nil {
			n.log.Printf(c.ID, "%v.", err)
			continue
		}
		if s.Limits.MemoryMax == 0 && n.memoryLimits {
			s.Limits.MemoryMax = each
		}
		n.runByOthers(&s)
		n.rings.Ring(c.ID, int(c.LogBytes))
		services = append(services, s)
	}
	n.supervisor.Update(services)
	return nil
}

// service is a service of the config in the words of the supervisor.
func service(c config.Service) (supervise.Service, error) {
	s := supervise.Service{
		ID: c.ID, Command: c.Command, Dir: c.WorkingDir, DependsOn: c.DependsOn, Volumes: c.Volumes,
		StopGrace: c.StopGrace.Nanoseconds(), Critical: c.Critical,
		Cgroup: servicesCgroup + "/" + c.ID, Limits: cgroupLimits(c.Limits), NoNewPrivs: c.NoNewPrivs,
	}
	if c.Capabilities != nil {
		s.Bounded, s.Capabilities = true, uint64(*c.Capabilities)
	}
	switch c.Restart {
	case config.RestartAlways:
		s.Restart = supervise.Always
	case config.RestartOnFailure:
		s.Restart = supervise.OnFailure
	case config.RestartNever:
		s.Restart = supervise.Never
	}
	for _, g := range c.Gates {
		switch g {
		case config.GateTime:
			s.Gates = append(s.Gates, supervise.GateTime)
		case config.GateNetwork:
			s.Gates = append(s.Gates, supervise.GateNetwork)
		}
	}
	if c.Probe != nil {
		s.Probe = supervisedProbe(c.Probe)
	}
	// Of two variables of one name, most programs take the first.
	if !slices.ContainsFunc(c.Env, func(e config.EnvVar) bool { return e.Name == "PATH" }) {
		s.Env = []string{"PATH=/usr/bin:/usr/sbin:/bin:/sbin"}
	}
	for _, e := range c.Env {
		s.Env = append(s.Env, e.Name+"="+e.Value)
	}
	var err error
	s.UID, s.GID, err = parseUser(c.User)
	if err != nil {
		return supervise.Service{}, fmt.Errorf("service %s is left out: %w", c.ID, err)
	}
	return s, nil
}

// supervisedProbe is a probe of the config in the words of the supervisor.
func supervisedProbe(p *config.Probe) *supervise.Probe {
	return &supervise.Probe{
		Kind: probeKind(p.Kind), Target: p.Target, Exec: p.Exec,
		Period: p.Period.Nanoseconds(), Timeout: p.Timeout.Nanoseconds(), Threshold: p.Threshold,
	}
}

// cgroupLimits are those of the config. Where the kernel ends a process of a
// service for want of memory it ends all of them: half a service helps nobody.
func cgroupLimits(l config.Limits) hal.CgroupLimits {
	return hal.CgroupLimits{
		MemoryMax: int64(l.MemoryMax), MemoryHigh: int64(l.MemoryHigh), CPUWeight: l.CPUWeight, IOWeight: l.IOWeight,
		CPUQuota: l.CPUMax.Quota.Microseconds(), CPUPeriod: l.CPUMax.Period.Microseconds(), PIDsMax: l.PIDsMax,
		OOMGroup: l.MemoryMax > 0,
	}
}

func probeKind(k config.ProbeKind) supervise.ProbeKind {
	switch k {
	case config.ProbeTCP:
		return supervise.ProbeTCP
	case config.ProbeExec:
		return supervise.ProbeExec
	case config.ProbeGRPC:
		return supervise.ProbeGRPC
	}
	return supervise.ProbeHTTP
}

// parseUser reads uid[:gid]. The image has no user database, so of the names
// only root's is known.
func parseUser(user string) (uid, gid uint32, err error) {
	if user == "" || user == "root" {
		return 0, 0, nil
	}
	u, g, hasGroup := strings.Cut(user, ":")
	if !hasGroup {
		g = u
	}
	id, err := strconv.ParseUint(u, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("user %q: the node knows no names, write uid or uid:gid", user)
	}
	group, err := strconv.ParseUint(g, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("group of user %q: the node knows no names, write uid:gid", user)
	}
	return uint32(id), uint32(group), nil
}
