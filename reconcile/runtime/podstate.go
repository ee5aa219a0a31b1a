package runtime

import (
	"strconv"
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// Phases of a pod. Those of Kubernetes, and the word that its users know for a
// container that waits for its next start.
const (
	phasePending   = "Pending"
	phaseRunning   = "Running"
	phaseSucceeded = "Succeeded"
	phaseFailed    = "Failed"
	phaseUnknown   = "Unknown"
	phaseCrashLoop = "CrashLoopBackOff"
)

// podState is a pod of the config and what is known of it.
type podState struct {
	*Pod
	want string // hash of the spec

	job   hal.Job
	doing string // shown while it runs

	sandbox    hal.Sandbox // the one that runs; ID "" for none
	old        []string    // sandboxes of it that do not run, and have to go
	former     []string    // those that run another spec, until this one can
	containers []*containerState

	backoff time.Duration // after actions that failed
	next    time.Duration
	failed  error  // of the last action
	waiting string // for this image
	phase   string
	message string
}

// containerState is a container of a pod and how it has fared.
type containerState struct {
	*Container
	now     hal.Container // the latest attempt; ID "" for none
	last    hal.Container // the one that was seen to have ended last
	stale   []string      // earlier attempts
	image   string        // its id, once it is known to be there
	waits   bool          // for the image
	started time.Duration // when the present attempt was seen to run
	running string        // id of that one
	backoff time.Duration
	next    time.Duration // of its restart
	probe   probeState
}

// adopt takes a spec of the same name over.
func (s *podState) adopt(pod *Pod) {
	s.Pod, s.want = pod, pod.Hash()
	var containers []*containerState
	for i := range pod.Containers {
		c := &containerState{Container: &pod.Containers[i]}
		for _, old := range s.containers {
			if old.Name == c.Name {
				old.adopt(c.Container)
				c = old
			}
		}
		containers = append(containers, c)
	}
	s.containers = containers
	s.next, s.backoff = 0, 0
}

func (c *containerState) adopt(spec *Container) {
	if spec.Image != c.Image {
		c.image, c.waits = "", false
	}
	if !spec.Probe.same(c.Probe) {
		c.probe = probeState{}
	}
	c.Container = spec
}

// ended takes in the end of an action.
func (s *podState) ended(now time.Duration) {
	s.failed = s.job.Err()
	s.job, s.doing = nil, ""
	if s.failed == nil {
		s.backoff = 0
		return
	}
	s.backoff = min(max(2*s.backoff, backoffMin), backoffMax)
	s.next = now + s.backoff
	for _, c := range s.containers {
		c.image = "" // it may be gone, which is looked for
	}
}

// observe finds the pod in what the runtime has.
func (s *podState) observe(now time.Duration, l *look) {
	s.sandbox, s.old, s.former = hal.Sandbox{}, nil, nil
	for _, b := range l.sandboxes {
		switch {
		case b.Name != s.Name:
		case b.Ready && b.Hash == s.want && s.sandbox.ID == "":
			s.sandbox = b
		case b.Ready && b.Hash != s.want:
			s.former = append(s.former, b.ID)
		default:
			s.old = append(s.old, b.ID)
		}
	}
	for _, c := range s.containers {
		c.observe(now, s, l.containers)
	}
	s.judge(now)
}

func (c *containerState) observe(now time.Duration, s *podState, all []hal.Container) {
	c.now, c.stale = hal.Container{}, nil
	for _, k := range all {
		if s.sandbox.ID == "" || k.Sandbox != s.sandbox.ID || k.Name != c.Name {
			continue
		}
		if c.now.ID == "" || k.Attempt > c.now.Attempt {
			k, c.now = c.now, k
		}
		if k.ID != "" {
			c.stale = append(c.stale, k.ID)
		}
	}
	if c.now.ID == "" && s.sandbox.ID != "" && c.last.Sandbox == s.sandbox.ID {
		// It was removed for want of space. That it has ended counts on.
		c.now = c.last
	}
	switch c.now.State {
	case hal.ContainerRunning:
		if c.running != c.now.ID {
			c.running, c.started = c.now.ID, now
			c.probe = probeState{}
		}
	case hal.ContainerExited:
		if c.last.ID != c.now.ID {
			c.last = c.now
			if c.running == c.now.ID && now >= c.started+stableAfter {
				c.backoff = 0
			}
			c.backoff = min(max(2*c.backoff, backoffMin), backoffMax)
			c.next = now + c.backoff
		}
	}
}

// again reports whether a container that has ended is to be started again.
func (c *containerState) again(policy Restart) bool {
	return policy == Always || policy == OnFailure && c.now.ExitCode != 0
}

// judge sets phase and message.
func (s *podState) judge(time.Duration) {
	var running, done, failures int
	s.message = ""
	for _, c := range s.containers {
		switch {
		case c.now.State == hal.ContainerRunning:
			running++
		case c.now.State == hal.ContainerExited && c.again(s.Restart):
			s.phase, s.message = phaseCrashLoop, c.end()+"; starting again"
			return
		case c.now.State == hal.ContainerExited:
			done++
			if c.now.ExitCode != 0 {
				failures++
				s.message = c.end()
			}
		}
	}
	switch {
	case running+done < len(s.containers):
		s.phase = phasePending
	case running > 0:
		s.phase = phaseRunning
	case failures > 0:
		s.phase = phaseFailed
	default:
		s.phase = phaseSucceeded
	}
}

// end says how a container has ended.
func (c *containerState) end() string {
	text := c.Name + " exited with code " + strconv.Itoa(int(c.now.ExitCode))
	if c.now.ExitCode > 128 && c.now.ExitCode <= 192 {
		text = c.Name + " was ended by signal " + strconv.Itoa(int(c.now.ExitCode)-128)
	}
	if c.now.Reason != "" && c.now.Reason != "Error" && c.now.Reason != "Completed" {
		text += " (" + c.now.Reason + ")"
	}
	return text
}

// status returns what is published.
func (s *podState) status(p *Pods, ready bool) resource.PodStatus {
	out := resource.PodStatus{Name: s.Name, Phase: s.phase, PodIP: s.sandbox.Address, Message: s.message, Ready: s.phase == phaseRunning && ready}
	if len(s.containers) > 0 {
		out.ContainerID = s.containers[0].now.ID
	}
	for _, c := range s.containers {
		out.Restarts += uint64(c.now.Attempt)
		if c.Probe != nil && !c.probe.well {
			out.Ready = false
			if why := c.probe.why; why != "" && out.Message == "" {
				out.Message = c.Name + " is not ready: " + why
			}
		}
	}
	switch f := p.fetch(s.waiting); {
	case !ready:
		out.Phase, out.Message = phaseUnknown, "waiting for the container runtime"
	case f != nil && f.failed != "":
		out.Message = f.failed
	case s.failed != nil:
		out.Message = s.failed.Error()
	case s.doing != "":
		out.Message = s.doing
	case f != nil:
		out.Message = "getting image " + f.ref
	}
	out.Message = short(out.Message)
	return out
}

// textMost bounds what is kept of what others say, in bytes: runtimes quote all
// that a server has answered.
const textMost = 400

// short cuts a text, between two characters.
func short(text string) string {
	if len(text) <= textMost {
		return text
	}
	end := textMost
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end] + "..."
}

// begin starts the next action of a pod, if there is one.
func (s *podState) begin(r *reconcile.Run, p *Pods, network bool) {
	if r.Now < s.next {
		r.WakeAt(s.next)
		return
	}
	s.waiting = ""
	for _, c := range s.containers {
		c.waits = false
	}
	switch {
	case len(s.old) > 0:
		s.replace(p, s.old)
	case s.sandbox.ID == "" && !network && !s.HostNetwork:
		s.phase, s.message = phasePending, "waiting for the runtime's network"
	case s.sandbox.ID == "" && !p.images(s, s.containers...):
		// What runs of an earlier spec runs on meanwhile.
	case len(s.former) > 0:
		s.replace(p, s.former)
	case s.sandbox.ID == "" && p.going(""):
		s.phase, s.message = phasePending, "waiting for the end of a pod that goes"
	case s.sandbox.ID == "":
		s.create(p)
	default:
		s.mendAll(r, p)
	}
}

// mendAll starts what is to be done next for a pod that is there.
func (s *podState) mendAll(r *reconcile.Run, p *Pods) {
	if len(s.former) > 0 {
		s.replace(p, s.former)
		return
	}
	well := true
	for _, c := range s.containers {
		if s.job == nil {
			well = s.mend(r, p, c) && well
		}
	}
	if well {
		s.failed, s.backoff = nil, 0 // whatever it was, it has been overcome
	}
}

// mend does what is to be done next for a container, and reports whether that is
// nothing.
func (s *podState) mend(r *reconcile.Run, p *Pods, c *containerState) (well bool) {
	switch {
	case c.now.ID == "":
		s.start(p, c, 0)
	case c.now.State == hal.ContainerCreated, c.now.State == hal.ContainerUnknown:
		// What has been made half is made anew.
		s.start(p, c, c.now.Attempt+1)
	case c.now.State == hal.ContainerExited && c.again(s.Restart):
		if r.Now < c.next {
			r.WakeAt(c.next)
			return true
		}
		s.start(p, c, c.now.Attempt+1)
	case c.probe.restart:
		s.restart(p, c)
	case len(c.stale) > 0:
		cri, ids := p.CRI, c.stale
		s.run(p, "removing earlier containers", func() error { return removeAll(cri, ids) })
	default:
		return true
	}
	return false
}
