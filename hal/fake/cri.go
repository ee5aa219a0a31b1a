package fake

import (
	"strconv"

	"machined/hal"
)

// ErrUnavailable is what a runtime that does not run answers.
const ErrUnavailable hal.Error = "the container runtime does not answer"

// CRI simulates hal.CRI. Calls take no time: see Jobs.
type CRI struct {
	Faults
	// State is what Status says. While Down is set, no call succeeds.
	State hal.RuntimeState
	Down  bool
	// Registry holds the images that PullImage finds, by reference; Card what
	// Import finds, by path.
	Registry, Card []Source
	// Size and Free are of the disk; images take space from Free.
	Size, Free uint64
	// Calls are those that changed something, in order, such as "run web".
	Calls []string
	// Signed is the Auth of the last pull.
	Signed hal.Auth

	sandboxes  []hal.Sandbox
	containers []fakeContainer
	images     []hal.Image
	changes    uint64
	made       int
	address    int
}

// Source is an image and where it is found.
type Source struct {
	Ref   string
	Image hal.Image
}

type fakeContainer struct {
	hal.Container
	spec hal.ContainerSpec
}

// NewCRI returns a runtime that is ready and has nothing.
func NewCRI() *CRI {
	return &CRI{
		State: hal.RuntimeState{Name: "containerd", Version: "fake", Ready: true, NetworkReady: true},
		Size:  1 << 30, Free: 1 << 30,
	}
}

func (c *CRI) call(method, what string) error {
	if c.Down {
		return ErrUnavailable
	}
	if err := c.failing(method); err != nil {
		return err
	}
	if what != "" {
		c.Calls = append(c.Calls, what)
	}
	return nil
}

func (c *CRI) id(prefix string) string {
	c.made++
	return prefix + "-" + strconv.Itoa(c.made)
}

// Status implements hal.CRI.
func (c *CRI) Status() (hal.RuntimeState, error) {
	if err := c.call("Status", ""); err != nil {
		return hal.RuntimeState{}, err
	}
	return c.State, nil
}

// Pods implements hal.CRI.
func (c *CRI) Pods() ([]hal.Sandbox, []hal.Container, error) {
	if err := c.call("Pods", ""); err != nil {
		return nil, nil, err
	}
	var containers []hal.Container
	for i := range c.containers {
		containers = append(containers, c.containers[i].Container)
	}
	return append([]hal.Sandbox(nil), c.sandboxes...), containers, nil
}

// RunPod implements hal.CRI. Two sandboxes of one name cannot be.
func (c *CRI) RunPod(s hal.SandboxSpec) (string, error) {
	if err := c.call("RunPod", "run "+s.Name); err != nil {
		return "", err
	}
	for _, other := range c.sandboxes {
		if other.Name == s.Name {
			return "", hal.ErrExists
		}
	}
	pod := hal.Sandbox{ID: c.id(s.Name), Name: s.Name, Hash: s.Hash, Ready: true}
	if !s.HostNetwork {
		c.address++
		pod.Address = "10.88.0." + strconv.Itoa(1+c.address)
	}
	c.sandboxes = append(c.sandboxes, pod)
	return pod.ID, nil
}

// StopPod implements hal.CRI.
func (c *CRI) StopPod(id string) error {
	if err := c.call("StopPod", "stop "+id); err != nil {
		return err
	}
	for i := range c.sandboxes {
		if c.sandboxes[i].ID == id {
			c.sandboxes[i].Ready, c.sandboxes[i].Address = false, ""
		}
	}
	for i := range c.containers {
		if c.containers[i].Sandbox == id {
			c.end(&c.containers[i], 137, "")
		}
	}
	return nil
}

// RemovePod implements hal.CRI.
func (c *CRI) RemovePod(id string) error {
	if err := c.call("RemovePod", "remove "+id); err != nil {
		return err
	}
	kept := c.sandboxes[:0]
	for _, s := range c.sandboxes {
		if s.ID != id {
			kept = append(kept, s)
		}
	}
	c.sandboxes = kept
	left := c.containers[:0]
	for _, k := range c.containers {
		if k.Sandbox != id {
			left = append(left, k)
		}
	}
	c.containers = left
	return nil
}

// CreateContainer implements hal.CRI.
func (c *CRI) CreateContainer(sandbox string, pod hal.SandboxSpec, s hal.ContainerSpec) (string, error) {
	if err := c.call("CreateContainer", "create "+pod.Name+"/"+s.Name+"#"+strconv.Itoa(int(s.Attempt))); err != nil {
		return "", err
	}
	ready := false
	for _, other := range c.sandboxes {
		ready = ready || other.ID == sandbox && other.Ready
	}
	if _, err := c.Image(s.Image); err != nil || !ready {
		return "", hal.ErrNotFound
	}
	k := hal.Container{ID: c.id(pod.Name + "/" + s.Name), Sandbox: sandbox, Name: s.Name, Attempt: s.Attempt, Image: s.Image, State: hal.ContainerCreated}
	c.containers = append(c.containers, fakeContainer{Container: k, spec: s})
	return k.ID, nil
}

func (c *CRI) container(id string) *fakeContainer {
	for i := range c.containers {
		if c.containers[i].ID == id {
			return &c.containers[i]
		}
	}
	return nil
}

// StartContainer implements hal.CRI.
func (c *CRI) StartContainer(id string) error {
	if err := c.call("StartContainer", ""); err != nil {
		return err
	}
	k := c.container(id)
	if k == nil || k.State != hal.ContainerCreated {
		return hal.ErrInvalid
	}
	k.State = hal.ContainerRunning
	c.changes++
	if args := k.spec.Args; len(args) == 2 && args[0] == Exit {
		code, err := strconv.Atoi(args[1])
		c.end(k, int32(code), "")
		return err
	}
	return nil
}

// Exit, as the first of two arguments, makes a container end at once with the
// exit code that is the other.
const Exit = "exit"

func (c *CRI) end(k *fakeContainer, code int32, reason string) {
	if k.State == hal.ContainerExited {
		return
	}
	k.State, k.ExitCode, k.Reason = hal.ContainerExited, code, reason
	c.changes++
}

// StopContainer implements hal.CRI.
func (c *CRI) StopContainer(id string, _ int64) error {
	if err := c.call("StopContainer", "term "+id); err != nil {
		return err
	}
	if k := c.container(id); k != nil && k.State == hal.ContainerRunning {
		c.end(k, 143, "")
	}
	return nil
}

// RemoveContainer implements hal.CRI.
func (c *CRI) RemoveContainer(id string) error {
	if err := c.call("RemoveContainer", "remove "+id); err != nil {
		return err
	}
	left := c.containers[:0]
	for _, k := range c.containers {
		if k.ID != id {
			left = append(left, k)
		}
	}
	c.containers = left
	return nil
}

// Exec implements hal.CRI: a command of one word is its exit code.
func (c *CRI) Exec(id string, command []string, _ int64) (int32, error) {
	if err := c.call("Exec", ""); err != nil {
		return 0, err
	}
	if k := c.container(id); k == nil || k.State != hal.ContainerRunning {
		return 0, hal.ErrNotFound
	}
	code, err := strconv.Atoi(command[0])
	return int32(code), err
}

// Changes implements hal.CRI.
func (c *CRI) Changes() uint64 { return c.changes }

// Crash ends the running container of a pod with an exit code, and reports
// whether there was one.
func (c *CRI) Crash(pod, name string, code int32, reason string) bool {
	for i := range c.containers {
		k := &c.containers[i]
		if k.Name == name && k.State == hal.ContainerRunning && c.podOf(k.Sandbox) == pod {
			c.end(k, code, reason)
			return true
		}
	}
	return false
}

// Reboot leaves what a runtime finds after a restart of the machine: all is
// there and nothing runs.
func (c *CRI) Reboot() {
	for i := range c.sandboxes {
		c.sandboxes[i].Ready, c.sandboxes[i].Address = false, ""
	}
	for i := range c.containers {
		c.end(&c.containers[i], 255, "Unknown")
	}
}

// Spec returns the spec of a container that was made.
func (c *CRI) Spec(id string) (hal.ContainerSpec, bool) {
	if k := c.container(id); k != nil {
		return k.spec, true
	}
	return hal.ContainerSpec{}, false
}

func (c *CRI) podOf(sandbox string) string {
	for _, s := range c.sandboxes {
		if s.ID == sandbox {
			return s.Name
		}
	}
	return ""
}

var _ hal.CRI = (*CRI)(nil)
