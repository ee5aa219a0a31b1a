package runtime

import (
	"time"

	"machined/hal"
	"machined/reconcile"
)

// defaultGrace is how many seconds a container has to end, where no config says
// so.
const defaultGrace = 10

// run starts an action. Everything that it uses is its own: the controller goes
// on meanwhile.
func (s *podState) run(p *Pods, doing string, action func() error) {
	s.doing = doing
	s.job = p.Jobs.Start(action)
}

func (s *podState) grace() int64 { return int64(s.StopGrace / time.Second) }

// replace removes sandboxes that are not what is wanted.
func (s *podState) replace(p *Pods, ids []string) {
	cri, grace := p.CRI, s.grace()
	running := make([][]string, len(ids))
	for i, id := range ids {
		running[i] = p.running(id)
	}
	s.run(p, "removing an earlier pod", func() (err error) {
		for i, id := range ids {
			err = reconcile.First(err, remove(cri, id, running[i], grace))
		}
		return err
	})
}

// remove ends a pod: its containers first, with their grace, which the runtime
// does not give them.
func remove(cri hal.CRI, id string, running []string, grace int64) (err error) {
	for _, c := range running {
		// One that does not end is killed with the sandbox.
		_ = cri.StopContainer(c, grace)
	}
	if err := cri.StopPod(id); err != nil {
		return err
	}
	return cri.RemovePod(id)
}

func removeAll(cri hal.CRI, ids []string) (err error) {
	for _, id := range ids {
		err = reconcile.First(err, cri.RemoveContainer(id))
	}
	return err
}

// create makes a pod with all of its containers. What a failure leaves is found
// by the next look, and continued from or removed.
func (s *podState) create(p *Pods) {
	maker, pod := s.maker(p), s.Pod
	images := make([]string, len(s.containers))
	for i, c := range s.containers {
		images[i] = c.image
	}
	s.run(p, "being made", func() error {
		if err := maker.prepare(pod); err != nil {
			return err
		}
		sandbox, err := maker.cri.RunPod(maker.spec)
		if err != nil {
			return err
		}
		for i := range pod.Containers {
			if err := maker.start(sandbox, &pod.Containers[i], images[i], 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// start makes and starts a container in the pod's sandbox, when its image is
// there, and removes those that it takes the place of.
func (s *podState) start(p *Pods, c *containerState, attempt uint32) {
	if !p.images(s, c) {
		return
	}
	maker, pod, container, image, sandbox, grace := s.maker(p), s.Pod, c.Container, c.image, s.sandbox.ID, s.grace()
	stale, latest := c.stale, c.now.ID
	s.run(p, "starting "+c.Name, func() error {
		if err := maker.prepare(pod); err != nil {
			return err
		}
		// Before, and not after: two of them could not listen on one port, and
		// where each start fails they would become more and more. The latest
		// stays until there is another: the attempt is its number.
		if err := removeAll(maker.cri, stale); err != nil {
			return err
		}
		if latest == "" {
			return maker.start(sandbox, container, image, attempt)
		}
		_ = maker.cri.StopContainer(latest, grace)
		if err := maker.start(sandbox, container, image, attempt); err != nil {
			return err
		}
		return maker.cri.RemoveContainer(latest)
	})
}

// restart ends a container that fails its probe. Where its policy allows, it is
// started again whatever its exit code: it has not ended by itself.
func (s *podState) restart(p *Pods, c *containerState) {
	if s.Restart == Never {
		c.probe = probeState{}
		cri, id, grace := p.CRI, c.now.ID, s.grace()
		s.run(p, "stopping "+c.Name+", which fails its probe", func() error { return cri.StopContainer(id, grace) })
		return
	}
	if s.start(p, c, c.now.Attempt+1); s.job != nil {
		c.probe = probeState{}
		s.doing = "restarting " + c.Name + ", which fails its probe"
	}
}

// maker makes parts of a pod, within a job.
type maker struct {
	cri     hal.CRI
	spec    hal.SandboxSpec
	prepare func(*Pod) error
}

func (s *podState) maker(p *Pods) maker {
	return maker{cri: p.CRI, spec: s.Pod.sandbox(s.want, p.LogDir+"/"+s.Name), prepare: p.Prepare}
}

func (m maker) start(sandbox string, c *Container, image string, attempt uint32) error {
	spec := c.ContainerSpec
	spec.Image, spec.Attempt, spec.LogPath = image, attempt, LogName(c.Name)
	id, err := m.cri.CreateContainer(sandbox, m.spec, spec)
	if err != nil {
		return err
	}
	return m.cri.StartContainer(id)
}

// LogName is the name of a container's log in the directory of its pod.
func LogName(container string) string { return container + ".log" }
