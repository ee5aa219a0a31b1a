package main

import (
	"time"

	"machined/hal"
	"machined/hal/fake"
)

// cri is what the node sees of hal.CRI.
type cri struct{ w *world }

// call is the start of each call. A call that fails may have done its work.
func (c cri) call() (inner *fake.CRI, late error, err error) {
	w := c.w
	if err := w.enter("cri"); err != nil {
		if w.dead || w.chance(60) || w.inner() == nil {
			return nil, nil, err
		}
		return w.inner(), err, nil
	}
	if s := &w.containers; s.dieAfter > 0 {
		if s.dieAfter--; s.dieAfter == 0 {
			w.kill("in the middle of a call")
		}
	}
	if w.inner() == nil {
		return nil, nil, fake.ErrUnavailable
	}
	return w.inner(), nil, nil
}

func (c cri) change(what string) (inner *fake.CRI, late error, err error) {
	if inner, late, err = c.call(); err == nil {
		c.w.containers.mutations++
		inner.Calls = inner.Calls[:0]
		c.w.note("cri: %s", what)
	}
	return inner, late, err
}

func first(late, err error) error {
	if late != nil {
		return late
	}
	return err
}

func (c cri) Status() (hal.RuntimeState, error) {
	inner, late, err := c.call()
	if err != nil || late != nil {
		return hal.RuntimeState{}, first(late, err)
	}
	inner.State.NetworkReady = c.w.containers.networked
	return inner.Status()
}

func (c cri) Pods() ([]hal.Sandbox, []hal.Container, error) {
	inner, late, err := c.call()
	if err != nil || late != nil {
		return nil, nil, first(late, err)
	}
	pods, all, err := inner.Pods()
	for i := range pods {
		switch {
		case c.w.sabotage == forgetHash:
			pods[i].Hash = ""
		case c.w.sabotage == claimForeign && pods[i].Name == "":
			pods[i].Name = "mine"
		}
	}
	return pods, all, err
}

func (c cri) RunPod(s hal.SandboxSpec) (string, error) {
	inner, late, err := c.change("run " + s.Name)
	if err != nil {
		return "", err
	}
	c.w.mayRun(inner, s)
	if _, err := inner.Image(pauseRef); err != nil {
		return "", hal.Error("there is no image of sandboxes")
	}
	id, err := inner.RunPod(s)
	return id, first(late, err)
}

func (c cri) StopPod(id string) error {
	inner, late, err := c.change("stop " + id)
	if err != nil {
		return err
	}
	c.w.mayEnd(inner, id)
	return first(late, inner.StopPod(id))
}

func (c cri) RemovePod(id string) error {
	inner, late, err := c.change("remove " + id)
	if err != nil {
		return err
	}
	c.w.mayEnd(inner, id)
	return first(late, inner.RemovePod(id))
}

func (c cri) CreateContainer(sandbox string, pod hal.SandboxSpec, s hal.ContainerSpec) (string, error) {
	inner, late, err := c.change("create " + pod.Name + "/" + s.Name)
	if err != nil {
		return "", err
	}
	id, err := inner.CreateContainer(sandbox, pod, s)
	return id, first(late, err)
}

func (c cri) StartContainer(id string) error {
	inner, late, err := c.change("start " + id)
	if err != nil || c.w.sabotage == neverStart {
		return err
	}
	return first(late, inner.StartContainer(id))
}

func (c cri) StopContainer(id string, grace int64) error {
	inner, late, err := c.change("term " + id)
	if err != nil {
		return err
	}
	c.w.mayEndContainer(inner, id)
	return first(late, inner.StopContainer(id, grace))
}

func (c cri) RemoveContainer(id string) error {
	inner, late, err := c.change("remove " + id)
	if err != nil {
		return err
	}
	c.w.mayEndContainer(inner, id)
	return first(late, inner.RemoveContainer(id))
}

func (c cri) Exec(id string, command []string, timeout int64) (int32, error) {
	inner, late, err := c.call()
	if err != nil || late != nil {
		return 0, first(late, err)
	}
	return inner.Exec(id, command, timeout)
}

func (c cri) Image(ref string) (hal.Image, error) {
	inner, late, err := c.call()
	if err != nil || late != nil {
		return hal.Image{}, first(late, err)
	}
	return inner.Image(ref)
}

func (c cri) Images() ([]hal.Image, error) {
	inner, late, err := c.call()
	if err != nil || late != nil {
		return nil, first(late, err)
	}
	return inner.Images()
}

func (c cri) PullImage(ref string, auth hal.Auth) (string, error) {
	inner, late, err := c.call()
	if err != nil {
		return "", err
	}
	c.w.containers.pulls++
	if c.w.containers.away {
		return "", hal.Error("the registry does not answer")
	}
	id, err := inner.PullImage(ref, auth)
	if err == nil { // one that cannot be had is asked for each minute
		c.w.note("cri: pull %s", ref)
	}
	return id, first(late, err)
}

func (c cri) RemoveImage(id string) error {
	inner, late, err := c.change("remove image " + id)
	if err != nil {
		return err
	}
	c.w.mayRemoveImage(inner, id)
	return first(late, inner.RemoveImage(id))
}

func (c cri) Import(path string) error {
	inner, late, err := c.change("import " + path)
	if err != nil {
		return err
	}
	return first(late, inner.Import(path))
}

func (c cri) Usage() (size, free uint64, err error) {
	inner, late, err := c.call()
	if err != nil || late != nil {
		return 0, 0, first(late, err)
	}
	size, free, err = inner.Usage()
	if c.w.sabotage == seemFull {
		free = 0
	}
	return size, free, err
}

// Changes implements hal.CRI. Each process counts on from others.
func (c cri) Changes() uint64 {
	n := c.w.containers.starts << 32
	if inner := c.w.inner(); inner != nil {
		n += inner.Changes()
	}
	return n
}

// criJobs are what the controllers of containers see of hal.Jobs: they hang while
// the runtime is stuck, and only then.
type criJobs struct {
	w     *world
	inner *fake.Jobs
}

func (j criJobs) Ended() uint64 { return j.inner.Ended() }

func (j criJobs) Start(run func() error) hal.Job {
	w, order := j.w, order{settings: j.w.node.settings}
	job := j.inner.Start(func() error {
		w.ledger.order = order
		return run()
	})
	if n := j.inner.Started() - int(j.inner.Ended()); n > jobsMost {
		w.fail("memory", "%d jobs of the controllers of containers are under way; want %d at most", n, jobsMost)
	}
	return job
}

// jobsMost bounds the jobs that may be under way at a time: see package runtime
// for pods, strays and pulls; one of probes for each container.
const jobsMost = 40

func (w *world) checkProbe() error {
	if w.containers.unwell {
		return hal.Error("connection refused")
	}
	return nil
}

func (w *world) stick(d time.Duration) {
	w.note("the runtime is stuck for %v", d)
	w.podJobs.Stuck = true
	w.later(int64(d), func() { w.podJobs.Heal() })
	w.later(int64(patience+time.Second), func() {})
}
