package runtime

import (
	"strconv"
	"time"

	"machined/hal"
	"machined/reconcile"
)

// probeState is what a container's probe has said.
type probeState struct {
	job     hal.Job
	next    time.Duration
	well    bool
	fails   int
	why     string
	restart bool
}

// probe asks the probes that are due.
func (p *Pods) probe(r *reconcile.Run, ready bool) {
	for _, s := range p.pods {
		for _, c := range s.containers {
			if c.Probe != nil {
				c.ask(r, p, s, ready)
			}
		}
	}
}

func (c *containerState) ask(r *reconcile.Run, p *Pods, s *podState, ready bool) {
	t := &c.probe
	if t.job != nil {
		if !t.job.Done() {
			return
		}
		t.answer(c.Probe, r.Now, t.job.Err())
		if t.restart {
			r.WakeIn(0)
		}
	}
	if !ready || c.now.State != hal.ContainerRunning || t.restart {
		if c.now.State != hal.ContainerRunning {
			t.well, t.why = false, ""
		}
		return
	}
	if r.Now < t.next {
		r.WakeAt(t.next)
		return
	}
	t.next = r.Now + c.Probe.Period
	probe, address, id, cri, check := *c.Probe, s.sandbox.Address, c.now.ID, p.CRI, p.Check
	t.job = p.Jobs.Start(func() error {
		if probe.Kind == ProbeExec {
			return execProbe(cri, id, probe)
		}
		return check(probe, address)
	})
}

// answer counts what a probe has said.
func (t *probeState) answer(p *Probe, now time.Duration, err error) {
	t.job = nil
	t.next = max(t.next, now)
	if err == nil {
		t.well, t.fails, t.why = true, 0, ""
		return
	}
	t.fails++
	t.why = short(err.Error())
	if t.fails >= p.Threshold {
		// One that has never been well may still be starting.
		t.restart = t.well
		t.well = false
	}
}

func execProbe(cri hal.CRI, id string, p Probe) error {
	code, err := cri.Exec(id, p.Exec, int64(max(p.Timeout, time.Second)/time.Second))
	if err != nil {
		return err
	}
	if code != 0 {
		return hal.Error("the probe's command exits with code " + strconv.Itoa(int(code)))
	}
	return nil
}

// same reports whether two probes ask the same.
func (p *Probe) same(q *Probe) bool {
	if p == nil || q == nil {
		return p == q
	}
	if p.Kind != q.Kind || p.Target != q.Target || p.Period != q.Period || p.Timeout != q.Timeout || p.Threshold != q.Threshold || len(p.Exec) != len(q.Exec) {
		return false
	}
	for i := range p.Exec {
		if p.Exec[i] != q.Exec[i] {
			return false
		}
	}
	return true
}
