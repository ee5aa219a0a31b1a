package linux

import (
	"fmt"
	"os"
	"time"

	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"machined/hal"
)

// Labels of what this driver makes.
const (
	podLabel       = "machined/pod"
	hashLabel      = "machined/hash"
	containerLabel = "machined/container"
)

// Pods implements hal.CRI. Ends of containers and addresses of pods cost a call
// each, once.
func (c *CRI) Pods() ([]hal.Sandbox, []hal.Container, error) {
	ctx, cancel := within(criSoon)
	defer cancel()
	pods, err := c.runtime.ListPodSandbox(ctx, &v1.ListPodSandboxRequest{})
	if err != nil {
		return nil, nil, criError(err, "list the pods")
	}
	all, err := c.runtime.ListContainers(ctx, &v1.ListContainersRequest{})
	if err != nil {
		return nil, nil, criError(err, "list the containers")
	}
	var sandboxes []hal.Sandbox
	addrs := map[string]string{}
	for _, p := range pods.Items {
		s := hal.Sandbox{ID: p.Id, Ready: p.State == v1.PodSandboxState_SANDBOX_READY}
		if p.Metadata.GetNamespace() == c.Namespace {
			s.Name, s.Hash = p.Labels[podLabel], p.Labels[hashLabel]
		}
		if s.Ready && s.Name != "" {
			if s.Address, err = c.address(p.Id); err != nil {
				return nil, nil, err
			}
			addrs[p.Id] = s.Address
		}
		sandboxes = append(sandboxes, s)
	}
	var containers []hal.Container
	exits := map[string]*v1.ContainerStatus{}
	for _, k := range all.Containers {
		out := hal.Container{ID: k.Id, Sandbox: k.PodSandboxId, Name: k.Labels[containerLabel], Attempt: k.Metadata.GetAttempt(), Image: k.ImageId}
		switch k.State {
		case v1.ContainerState_CONTAINER_CREATED:
			out.State = hal.ContainerCreated
		case v1.ContainerState_CONTAINER_RUNNING:
			out.State = hal.ContainerRunning
		case v1.ContainerState_CONTAINER_EXITED:
			out.State = hal.ContainerExited
			end, err := c.exit(k.Id)
			if err != nil {
				return nil, nil, err
			}
			exits[k.Id] = end
			out.ExitCode, out.Reason, out.Message = end.ExitCode, end.Reason, end.Message
		}
		containers = append(containers, out)
	}
	c.mu.Lock()
	c.addrs, c.exits = addrs, exits
	c.mu.Unlock()
	return sandboxes, containers, nil
}

func (c *CRI) exit(id string) (*v1.ContainerStatus, error) {
	c.mu.Lock()
	known := c.exits[id]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	ctx, cancel := within(criSoon)
	defer cancel()
	answer, err := c.runtime.ContainerStatus(ctx, &v1.ContainerStatusRequest{ContainerId: id})
	if missing(err) {
		return &v1.ContainerStatus{}, nil // removed meanwhile
	}
	if err != nil {
		return nil, criError(err, "ask how container %s has ended", id)
	}
	return answer.GetStatus(), nil
}

func (c *CRI) address(id string) (string, error) {
	c.mu.Lock()
	known, ok := c.addrs[id]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	ctx, cancel := within(criSoon)
	defer cancel()
	answer, err := c.runtime.PodSandboxStatus(ctx, &v1.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil && !missing(err) {
		return "", criError(err, "ask for the address of pod %s", id)
	}
	return answer.GetStatus().GetNetwork().GetIp(), nil
}

// sandboxConfig is the same for a pod and for each of its containers.
func (c *CRI) sandboxConfig(s hal.SandboxSpec) *v1.PodSandboxConfig {
	mode := v1.NamespaceMode_POD
	if s.HostNetwork {
		mode = v1.NamespaceMode_NODE
	}
	config := &v1.PodSandboxConfig{
		Metadata: &v1.PodSandboxMetadata{Name: s.Name, Uid: s.Name, Namespace: c.Namespace},
		Labels:   map[string]string{podLabel: s.Name, hashLabel: s.Hash}, LogDirectory: s.LogDir,
		Linux: &v1.LinuxPodSandboxConfig{
			CgroupParent:    c.cgroup,
			SecurityContext: &v1.LinuxSandboxSecurityContext{NamespaceOptions: namespaces(mode)},
		},
	}
	if !s.HostNetwork {
		config.Hostname = s.Name
	}
	for _, p := range s.Ports {
		m := &v1.PortMapping{HostPort: int32(p.HostPort), ContainerPort: int32(p.ContainerPort)}
		if p.UDP {
			m.Protocol = v1.Protocol_UDP
		}
		config.PortMappings = append(config.PortMappings, m)
	}
	return config
}

func namespaces(network v1.NamespaceMode) *v1.NamespaceOption {
	return &v1.NamespaceOption{Network: network, Pid: v1.NamespaceMode_CONTAINER, Ipc: v1.NamespaceMode_POD}
}

// RunPod implements hal.CRI.
func (c *CRI) RunPod(s hal.SandboxSpec) (string, error) {
	if err := os.MkdirAll(s.LogDir, 0o750); err != nil {
		return "", fmt.Errorf("run pod %s: make the directory of its logs: %w", s.Name, err)
	}
	ctx, cancel := within(criCall)
	defer cancel()
	answer, err := c.runtime.RunPodSandbox(ctx, &v1.RunPodSandboxRequest{Config: c.sandboxConfig(s)})
	if err != nil {
		return "", criError(err, "run pod %s", s.Name)
	}
	return answer.PodSandboxId, nil
}

// StopPod implements hal.CRI.
func (c *CRI) StopPod(id string) error {
	ctx, cancel := within(criCall)
	defer cancel()
	_, err := c.runtime.StopPodSandbox(ctx, &v1.StopPodSandboxRequest{PodSandboxId: id})
	if missing(err) {
		return nil
	}
	return criError(err, "stop pod %s", id)
}

// RemovePod implements hal.CRI.
func (c *CRI) RemovePod(id string) error {
	ctx, cancel := within(criCall)
	defer cancel()
	_, err := c.runtime.RemovePodSandbox(ctx, &v1.RemovePodSandboxRequest{PodSandboxId: id})
	if missing(err) {
		return nil
	}
	return criError(err, "remove pod %s", id)
}

// StartContainer implements hal.CRI.
func (c *CRI) StartContainer(id string) error {
	ctx, cancel := within(criCall)
	defer cancel()
	_, err := c.runtime.StartContainer(ctx, &v1.StartContainerRequest{ContainerId: id})
	return criError(err, "start container %s", short(id))
}

// StopContainer implements hal.CRI.
func (c *CRI) StopContainer(id string, grace int64) error {
	ctx, cancel := within(criCall + time.Duration(grace)*time.Second)
	defer cancel()
	_, err := c.runtime.StopContainer(ctx, &v1.StopContainerRequest{ContainerId: id, Timeout: grace})
	if missing(err) {
		return nil
	}
	return criError(err, "stop container %s", short(id))
}

// RemoveContainer implements hal.CRI.
func (c *CRI) RemoveContainer(id string) error {
	ctx, cancel := within(criCall)
	defer cancel()
	_, err := c.runtime.RemoveContainer(ctx, &v1.RemoveContainerRequest{ContainerId: id})
	if missing(err) {
		return nil
	}
	return criError(err, "remove container %s", short(id))
}

// Exec implements hal.CRI.
func (c *CRI) Exec(id string, command []string, timeout int64) (int32, error) {
	ctx, cancel := within(criSoon + time.Duration(timeout)*time.Second)
	defer cancel()
	answer, err := c.runtime.ExecSync(ctx, &v1.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: timeout})
	if err != nil {
		return 0, criError(err, "run %s in container %s", command[0], short(id))
	}
	return answer.ExitCode, nil
}

// short is as much of an id as people read.
func short(id string) string { return id[:min(len(id), 12)] }
