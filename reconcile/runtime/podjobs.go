package runtime

import (
	"errors"
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

// replace removes the sandboxes that are not what is wanted.
func (s *podState) replace(p *Pods) {
	cri, grace := p.CRI, s.grace()
	ids := s.old
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
	images := make([]string, len(pod.Containers))
	s.run(p, "being made", func() error {
		// The images first: to pull them takes longest and needs no sandbox.
		for i := range pod.Containers {
			id, err := maker.image(pod.Containers[i].Image)
			if err != nil {
				return err
			}
			images[i] = id
		}
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

// start makes and starts a container in the pod's sandbox, and removes those
// that it takes the place of.
func (s *podState) start(p *Pods, c *containerState, attempt uint32, instead []string) {
	maker, pod, container, sandbox := s.maker(p), s.Pod, c.Container, s.sandbox.ID
	instead = append([]string(nil), instead...)
	grace := s.grace()
	s.run(p, "starting "+c.Name, func() error {
		image, err := maker.image(container.Image)
		if err != nil {
			return err
		}
		if err := maker.prepare(pod); err != nil {
			return err
		}
		// Before, and not after: two of them could not listen on one port.
		for _, id := range instead {
			_ = maker.cri.StopContainer(id, grace)
		}
		if err := maker.start(sandbox, container, image, attempt); err != nil {
			return err
		}
		return removeAll(maker.cri, instead)
	})
}

// restart ends a container that fails its probe. Where its policy allows, it is
// started again whatever its exit code: it has not ended by itself.
func (s *podState) restart(p *Pods, c *containerState) {
	c.probe = probeState{}
	cri, id, grace := p.CRI, c.now.ID, s.grace()
	if s.Restart == Never {
		s.run(p, "stopping "+c.Name+", which fails its probe", func() error { return cri.StopContainer(id, grace) })
		return
	}
	s.start(p, c, c.now.Attempt+1, append(c.stale, id))
	s.doing = "restarting " + c.Name + ", which fails its probe"
}

// maker makes parts of a pod, within a job.
type maker struct {
	cri      hal.CRI
	spec     hal.SandboxSpec
	prepare  func(*Pod) error
	settings *Settings
	importer *Importer
}

func (s *podState) maker(p *Pods) maker {
	return maker{cri: p.CRI, spec: s.Pod.sandbox(s.want, p.LogDir+"/"+s.Name), prepare: p.Prepare, settings: p.of, importer: p.Images}
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

// image returns the id of an image: one that is there, that the card has, or
// that its registry has.
func (m maker) image(ref string) (string, error) {
	image, err := m.cri.Image(ref)
	if err == nil {
		return image.ID, nil
	}
	if !errors.Is(err, hal.ErrNotFound) {
		return "", err
	}
	if id, err := m.importer.again(m.cri, ref); err == nil {
		return id, nil
	}
	return m.cri.PullImage(ref, m.settings.auth(ref))
}
