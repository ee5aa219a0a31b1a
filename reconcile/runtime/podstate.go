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
	old        []string    // sandboxes that have to go
	containers []*containerState

	backoff time.Duration // after actions that failed
	next    time.Duration
	failed  error // of the last action
	phase   string
	message string
}

// containerState is a container of a pod and how it has fared.
type containerState struct {
	*Container
	now     hal.Container // the last attempt; ID "" for none
	stale   []string      // earlier attempts
	seen    string        // id of the one whose end has been counted
	started time.Duration // when the present attempt was seen to run
	running string        // id of that one
	backoff time.Duration
	next    time.Duration // of its restart
	probe   probeState
}

// adopt takes a spec of the same name over.
func (s *podState) adopt(pod *Pod) {
	s.Pod, s.want = pod, pod.hash()
	var containers []*containerState
	for i := range pod.Containers {
		c := &containerState{Container: &pod.Containers[i]}
		for _, old := range s.containers {
			if old.Name == c.Name {
				old.Container = c.Container
				c = old
			}
		}
		containers = append(containers, c)
	}
	s.containers = containers
	s.next, s.backoff = 0, 0
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
}

// observe finds the pod in what the runtime has.
func (s *podState) observe(now time.Duration, l *look) {
	s.sandbox, s.old = hal.Sandbox{}, nil
	for _, b := range l.sandboxes {
		switch {
		case b.Name != s.Name:
		case b.Ready && b.Hash == s.want && s.sandbox.ID == "":
			s.sandbox = b
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
	switch c.now.State {
	case hal.ContainerRunning:
		if c.running != c.now.ID {
			c.running, c.started = c.now.ID, now
			c.probe = probeState{}
		}
	case hal.ContainerExited:
		if c.seen != c.now.ID {
			c.seen = c.now.ID
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
func (s *podState) status(ready bool) resource.PodStatus {
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
	switch {
	case !ready:
		out.Phase, out.Message = phaseUnknown, "waiting for the container runtime"
	case s.failed != nil:
		out.Message = s.failed.Error()
	case s.doing != "":
		out.Message = s.doing
	}
	return out
}

// begin starts the next action of a pod, if there is one.
func (s *podState) begin(r *reconcile.Run, p *Pods, network bool) {
	if r.Now < s.next {
		r.WakeAt(s.next)
		return
	}
	switch {
	case len(s.old) > 0:
		s.replace(p)
	case s.sandbox.ID == "" && !network && !s.HostNetwork:
		s.phase, s.message = phasePending, "waiting for the runtime's network"
	case s.sandbox.ID == "":
		s.create(p)
	default:
		for _, c := range s.containers {
			if s.job == nil {
				s.mend(r, p, c)
			}
		}
	}
}

// mend does what is to be done next for a container.
func (s *podState) mend(r *reconcile.Run, p *Pods, c *containerState) {
	switch {
	case c.now.ID == "":
		s.start(p, c, 0, c.stale)
	case c.now.State == hal.ContainerCreated, c.now.State == hal.ContainerUnknown:
		// What has been made half is made anew.
		s.start(p, c, c.now.Attempt+1, append(c.stale, c.now.ID))
	case c.now.State == hal.ContainerExited && c.again(s.Restart):
		if r.Now < c.next {
			r.WakeAt(c.next)
			return
		}
		s.start(p, c, c.now.Attempt+1, append(c.stale, c.now.ID))
	case c.probe.restart:
		s.restart(p, c)
	case len(c.stale) > 0:
		cri, ids := p.CRI, c.stale
		s.run(p, "removing earlier containers", func() error { return removeAll(cri, ids) })
	}
}
