package main

import (
	"fmt"
	"os"

	"machined/hal"
	"machined/init/config"
	"machined/init/probe"
	"machined/init/supervise"
	"machined/reconcile/resource"
)

// unhealthy says what a system on trial lacks to be kept, "" when nothing is
// missing.
func (n *node) unhealthy(now int64) string {
	m := n.loaded.Config.Machine
	switch {
	case n.systemStatus != nil:
		return "the slot's system cannot be used: " + n.systemStatus.Message
	case n.server == nil || !n.apiStatus.Healthy:
		return "the API is not up: " + n.apiStatus.Message
	case n.servicesBy != 0:
		return "the services have not started yet"
	}
	for _, s := range n.supervisor.Status() {
		if s.Critical && !s.Healthy && s.State != supervise.Finished {
			return fmt.Sprintf("the critical service %s is not healthy: %s", s.ID, s.Message)
		}
	}
	for _, id := range m.Upgrade.Health.Services {
		if s, _, ok := n.store.Services.Get(resource.Named(id)); !ok || !s.Healthy {
			return fmt.Sprintf("the service %s is not healthy: %s", id, s.Message)
		}
	}
	if s, _, ok := n.store.Runtimes.Get(resource.Named(config.ContainerdID)); !m.Runtime.Disabled && (!ok || !s.Ready) {
		return "the container runtime is not ready: " + s.Message
	}
	for _, name := range m.Upgrade.Health.Pods {
		if p, _, ok := n.store.Pods.Get(resource.Named(name)); !ok || !p.Ready {
			return fmt.Sprintf("the pod %s is not ready: %s", name, p.Message)
		}
	}
	return n.trialProbes.failing(n, m.Upgrade.Health.Probes, now)
}

// trialProbes asks what the config wants to be asked of a system on trial.
type trialProbes struct {
	probes []trialProbe
}

type trialProbe struct {
	asked int64 // when, nanoseconds since boot
	job   hal.Job
	why   string
}

// failing returns why one of the probes does not succeed, "" for all do. It asks
// each anew in its period.
func (t *trialProbes) failing(n *node, wanted []config.Probe, now int64) string {
	if len(t.probes) != len(wanted) {
		t.probes = make([]trialProbe, len(wanted))
		for i := range t.probes {
			t.probes[i].why = "it has not answered yet"
		}
	}
	why := ""
	for i := range t.probes {
		p, c := &t.probes[i], wanted[i]
		if p.job != nil && p.job.Done() {
			if p.why = ""; p.job.Err() != nil {
				p.why = p.job.Err().Error()
			}
			p.job = nil
		}
		if p.job == nil && (p.asked == 0 || now-p.asked >= int64(c.Period)) {
			p.asked = max(now, 1)
			p.job = (&probe.Prober{Jobs: n.jobs, Processes: n.processes, Cgroups: n.cgroups}).Probe(&supervise.Service{
				ID: fmt.Sprintf("upgrade-probe-%d", i), Cgroup: fmt.Sprintf("%s/upgrade-probe-%d", servicesCgroup, i), Probe: supervisedProbe(&c),
			})
		}
		if why == "" && p.why != "" {
			why = fmt.Sprintf("probe %d of machine.upgrade.health does not succeed: %s", i, p.why)
		}
	}
	return why
}

// trialMark is there while the running system is on trial: whatever ends it has to
// be quick then, see emergency.
const trialMark = "/run/machined/trial"

func (n *node) markTrial(trial bool) {
	_, err := os.Stat(n.at(trialMark))
	switch marked := err == nil; {
	case trial && !marked:
		err = n.files.Replace(n.at(trialMark), nil, true)
	case !trial && marked:
		err = n.files.Remove(n.at(trialMark))
	default:
		return
	}
	if err != nil {
		n.log.Printf("upgrade", "%v.", err)
	}
}
