package main

import (
	"time"

	"machined/hal"
	"machined/init/config"
	"machined/reconcile/runtime"
)

func runtimeSettings(m config.Machine) runtime.Settings {
	s := runtime.Settings{Disabled: m.Runtime.Disabled}
	for _, r := range m.Runtime.Registries {
		if r.Username != "" {
			s.Registries = append(s.Registries, runtime.Registry{Host: r.Host, Auth: hal.Auth{Username: r.Username, Password: r.Password}})
		}
	}
	for _, p := range m.Pods {
		pod := runtime.Pod{Name: p.Name, HostNetwork: p.HostNetwork, Restart: podRestart(p.Restart), StopGrace: p.StopGrace}
		for _, port := range p.Ports {
			pod.Ports = append(pod.Ports, hal.PortMapping{HostPort: port.Host, ContainerPort: port.Container, UDP: port.UDP})
		}
		for _, c := range p.Containers {
			pod.Containers = append(pod.Containers, podContainer(c))
		}
		s.Pods = append(s.Pods, pod)
	}
	return s
}

func podRestart(p config.RestartPolicy) runtime.Restart {
	switch p {
	case config.RestartOnFailure:
		return runtime.OnFailure
	case config.RestartNever:
		return runtime.Never
	case config.RestartAlways:
	}
	return runtime.Always
}

func podContainer(c config.PodContainer) runtime.Container {
	out := runtime.Container{ContainerSpec: hal.ContainerSpec{
		Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir,
		MemoryMax: uint64(c.Limits.MemoryMax), CPUWeight: uint64(c.Limits.CPUWeight), PIDsMax: int64(c.Limits.PIDsMax),
		CPUQuota: c.Limits.CPUMax.Quota.Microseconds(), CPUPeriod: c.Limits.CPUMax.Period.Microseconds(),
		UID: -1, GID: -1, Capabilities: c.Capabilities, Privileged: c.Privileged, ReadOnlyRoot: c.ReadOnlyRoot,
	}}
	if c.User != "" {
		// The config has been checked.
		if uid, gid, err := parseUser(c.User); err == nil {
			out.UID, out.GID = int64(uid), int64(gid)
		}
	}
	for _, e := range c.Env {
		out.Env = append(out.Env, hal.EnvVar{Name: e.Name, Value: e.Value})
	}
	for _, m := range c.Mounts {
		out.Mounts = append(out.Mounts, hal.BindMount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	if p := c.Probe; p != nil {
		out.Probe = &runtime.Probe{
			Kind: podProbe(p.Kind), Target: p.Target, Exec: p.Exec, Period: p.Period, Timeout: max(p.Timeout, time.Second), Threshold: p.Threshold,
		}
	}
	return out
}

func podProbe(k config.ProbeKind) runtime.ProbeKind {
	switch k {
	case config.ProbeTCP:
		return runtime.ProbeTCP
	case config.ProbeExec:
		return runtime.ProbeExec
	case config.ProbeGRPC:
		return runtime.ProbeGRPC
	case config.ProbeHTTP:
	}
	return runtime.ProbeHTTP
}
