package supervise

import "slices"

// Update takes a new set of services: those that are new are started, those that
// are gone stopped and forgotten, and those that differ are stopped and started
// by what is new. The others are left alone, those that depend on these, too.
func (s *Supervisor) Update(services []Service) {
	old := s.units
	s.units = nil
	for _, svc := range services {
		i := slices.IndexFunc(old, func(u *unit) bool { return u.ID == svc.ID })
		if i < 0 {
			s.units = append(s.units, newUnit(s, svc))
			continue
		}
		u := old[i]
		old = slices.Delete(slices.Clone(old), i, i+1)
		u.replaceBy(svc)
		s.units = append(s.units, u)
	}
	for _, u := range old {
		u.goal, u.forget, u.replace = goDown, true, nil
		u.why = "it is not in the config any more"
		s.units = append(s.units, u)
	}
	for _, u := range s.units {
		u.resolve()
	}
	s.publish()
}

// publish makes the list known to other goroutines.
func (s *Supervisor) publish() {
	s.version++
	s.mu.Lock()
	s.known = s.units
	s.mu.Unlock()
}

// forgetGone drops the services that were taken from the set and have ended.
func (s *Supervisor) forgetGone() {
	gone := func(u *unit) bool { return u.forget && !u.active() }
	if !slices.ContainsFunc(s.units, gone) {
		return
	}
	for _, u := range s.units {
		if gone(u) && u.Cgroup != "" && s.Cgroups != nil && !u.KillProcessOnly {
			_ = s.Cgroups.Remove(u.Cgroup) // one that is in use goes with the node
		}
	}
	s.units = slices.DeleteFunc(slices.Clone(s.units), gone)
	for _, u := range s.units {
		u.resolve()
	}
	s.publish()
}

// resolve finds the dependencies.
func (u *unit) resolve() {
	u.deps = make([]*unit, len(u.DependsOn))
	for n, id := range u.DependsOn {
		if i := slices.IndexFunc(u.owner.units, func(d *unit) bool { return d.ID == id && !d.forget }); i >= 0 {
			u.deps[n] = u.owner.units[i]
		}
	}
}

// replaceBy takes another description of the service.
func (u *unit) replaceBy(svc Service) {
	wasForgotten := u.forget
	u.forget = false
	if u.same(&svc) {
		u.Service, u.replace = svc, nil // its functions may be others
		if wasForgotten {
			u.goal = goAgain
		}
		return
	}
	u.replace = &svc
	if u.goal != goDown || wasForgotten {
		u.goal, u.why = goAgain, "its config has changed"
	} else if !u.active() {
		u.Service, u.replace = svc, nil // it was stopped by hand, and stays so
	}
}

// renew lets a service wait for its start as if it had never run.
func (u *unit) renew(now int64) {
	if u.replace != nil {
		u.Service, u.replace = *u.replace, nil
		u.resolve()
	}
	u.goal, u.backoff, u.inRow, u.next, u.endedWell = goUp, backoffMin, 0, 0, false
	u.blockedBy = blocker{}
	reason := "to be started"
	if u.why != "" {
		reason += ": " + u.why
	}
	u.why = ""
	u.set(now, Waiting, reason)
}
