package linux

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"machined/hal"
)

// podOOMScore is that of services: where the kernel itself has to choose, it ends
// whoever has taken the most, and not a bystander for being in a pod.
const podOOMScore = 0

// CreateContainer implements hal.CRI.
func (c *CRI) CreateContainer(sandbox string, pod hal.SandboxSpec, s hal.ContainerSpec) (string, error) {
	ctx, cancel := within(criCall)
	defer cancel()
	config := c.sandboxConfig(pod)
	answer, err := c.runtime.CreateContainer(ctx, &v1.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: config, Config: containerConfig(c.limited(s), config),
	})
	if err != nil {
		return "", criError(err, "make container %s of pod %s", s.Name, pod.Name)
	}
	return answer.ContainerId, nil
}

// limited gives a container the limit that it has not, and leaves out those that
// this kernel has not: with one of them, the container would not start.
func (c *CRI) limited(s hal.ContainerSpec) hal.ContainerSpec {
	has := func(file string) bool {
		_, err := os.Stat(filepath.Join(c.hierarchy, c.cgroup, file))
		return err == nil
	}
	if s.MemoryMax == 0 {
		s.MemoryMax = c.MemoryMax
	}
	if !has("memory.max") {
		s.MemoryMax = 0
	}
	if !has("cpu.max") {
		s.CPUQuota, s.CPUPeriod = 0, 0
	}
	if !has("cpu.weight") {
		s.CPUWeight = 0
	}
	if !has("pids.max") {
		s.PIDsMax = 0
	}
	return s
}

func containerConfig(s hal.ContainerSpec, pod *v1.PodSandboxConfig) *v1.ContainerConfig {
	config := &v1.ContainerConfig{
		Metadata: &v1.ContainerMetadata{Name: s.Name, Attempt: s.Attempt}, Image: &v1.ImageSpec{Image: s.Image},
		Command: s.Command, Args: s.Args, WorkingDir: s.WorkingDir, LogPath: s.LogPath,
		Labels: map[string]string{podLabel: pod.Metadata.Name, containerLabel: s.Name},
		Linux:  &v1.LinuxContainerConfig{Resources: resources(s), SecurityContext: security(s)},
	}
	config.Linux.SecurityContext.NamespaceOptions = pod.Linux.SecurityContext.NamespaceOptions
	for _, e := range s.Env {
		config.Envs = append(config.Envs, &v1.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	for _, m := range s.Mounts {
		config.Mounts = append(config.Mounts, &v1.Mount{HostPath: m.Source, ContainerPath: m.Target, Readonly: m.ReadOnly})
	}
	return config
}

func resources(s hal.ContainerSpec) *v1.LinuxContainerResources {
	r := &v1.LinuxContainerResources{
		OomScoreAdj: podOOMScore, MemoryLimitInBytes: int64(s.MemoryMax), CpuQuota: s.CPUQuota, CpuPeriod: s.CPUPeriod,
	}
	unified := map[string]string{}
	if s.CPUWeight > 0 {
		unified["cpu.weight"] = strconv.FormatUint(s.CPUWeight, 10)
	}
	if s.PIDsMax > 0 {
		unified["pids.max"] = strconv.FormatInt(s.PIDsMax, 10)
	}
	if len(unified) > 0 {
		r.Unified = unified
	}
	return r
}

func security(s hal.ContainerSpec) *v1.LinuxContainerSecurityContext {
	c := &v1.LinuxContainerSecurityContext{
		Privileged: s.Privileged, ReadonlyRootfs: s.ReadOnlyRoot, NoNewPrivs: !s.Privileged,
	}
	profile := v1.SecurityProfile_RuntimeDefault
	if s.Privileged {
		profile = v1.SecurityProfile_Unconfined
	}
	c.Seccomp = &v1.SecurityProfile{ProfileType: profile}
	if s.UID >= 0 {
		c.RunAsUser = &v1.Int64Value{Value: s.UID}
	}
	if s.GID >= 0 && s.UID >= 0 {
		c.RunAsGroup = &v1.Int64Value{Value: s.GID}
	}
	for _, name := range s.Capabilities {
		if c.Capabilities == nil {
			c.Capabilities = &v1.Capability{}
		}
		c.Capabilities.AddCapabilities = append(c.Capabilities.AddCapabilities, strings.TrimPrefix(name, "CAP_"))
	}
	if !s.Privileged {
		// What of /proc and /sys tells of the node, or changes it.
		c.MaskedPaths = []string{
			"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
			"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
		}
		c.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	return c
}
