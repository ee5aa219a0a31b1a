package crash

import (
	"errors"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

// scenario is what a node does while the power may go. It begins in slot A.
type scenario struct {
	name string
	// before brings the partition into the state that run begins with.
	before, run func(m machine, f hal.BootFiles, boot func(rules Rules) (string, error)) error
}

// trial stages a version and boots it.
func trial(m machine, f hal.BootFiles, boot func(Rules) (string, error)) error {
	if err := m.install(f, "A", m.version); err != nil {
		return err
	}
	rules, err := m.try(f, "A", "B")
	if err != nil {
		return err
	}
	slot, err := boot(rules)
	if err == nil && slot != "B" {
		err = errors.New("the trial boots slot " + slot)
	}
	return err
}

func commit(m machine, f hal.BootFiles, boot func(Rules) (string, error)) error {
	return errors.Join(trial(m, f, boot), m.bootloader(f).Commit("B"))
}

func abandon(m machine, f hal.BootFiles, boot func(Rules) (string, error)) error {
	return errors.Join(trial(m, f, boot), m.bootloader(f).Abandon("B", "B"))
}

// failing has the trial's boots end without a word, until the old slot is back.
func failing(m machine, f hal.BootFiles, boot func(Rules) (string, error)) error {
	err := trial(m, f, boot)
	for range 4 {
		slot, bootErr := boot(m.rules)
		if err = errors.Join(err, bootErr); err != nil || slot == "A" {
			return err
		}
	}
	return m.bootloader(f).Abandon("B", "B") // whoever counts does so: flip first
}

// probe tries the slot that runs, to see what the firmware does.
func probe(m machine, f hal.BootFiles, boot func(Rules) (string, error)) error {
	p, ok := m.bootloader(f).(hal.TrialProber)
	if !ok || m.flipFirst {
		return nil
	}
	if _, err := p.ProbeTrial("A"); err != nil {
		return err
	}
	slot, err := boot(Trial)
	if err == nil && slot != "A" {
		err = errors.New("the probe boots slot " + slot)
	}
	return err
}

func scenarios() []scenario {
	return []scenario{
		{"stage, try, commit", nil, commit},
		{"stage, try, abandon", nil, abandon},
		{"stage, try, fail", nil, failing},
		{"rollback", commit, func(m machine, f hal.BootFiles, _ func(Rules) (string, error)) error {
			return m.bootloader(f).Abandon("B", "B")
		}},
		{"stage over a failed trial", failing, commit},
		{"probe after a failed trial", failing, probe},
		{"stage over a trial that nobody booted", func(m machine, f hal.BootFiles, _ func(Rules) (string, error)) error {
			err := m.install(f, "A", m.version)
			_, tryErr := m.try(f, "A", "B")
			st, stateErr := m.bootloader(f).State("A")
			if err = errors.Join(err, tryErr, stateErr); err == nil && m.flipFirst {
				return m.bootloader(f).Abandon("A", "B") // without it, Stage refuses
			}
			if st.Trial != "B" {
				err = errors.New("no trial of slot B is planned")
			}
			return err
		}, commit},
		{"abort", nil, func(m machine, f hal.BootFiles, _ func(Rules) (string, error)) error {
			w, err := m.bootloader(f).Stage("A", m.content(m.version))
			if err != nil {
				return err
			}
			file, err := w.Create(m.files[0])
			if err != nil {
				return err
			}
			_, err = file.Write(data(m.version, m.files[0])[:700])
			return errors.Join(err, w.Abort())
		}},
	}
}

// prepare returns a disk on which run can begin.
func (s scenario) prepare(m machine) (*fake.BootFiles, error) {
	b := m.disk()
	if s.before == nil {
		return b, nil
	}
	m.version = "v0" // of the same length: what is left of it may pass for the new
	err := s.before(m, b, func(rules Rules) (string, error) { return m.start(b, volume(b), rules) })
	b.Settle()
	return b, err
}

// record runs a scenario on a disk, of which it returns the journal.
func (s scenario) record(m machine) (*fake.BootFiles, error) {
	b, err := s.prepare(m)
	if err != nil {
		return nil, err
	}
	return b, s.run(m, b, func(rules Rules) (string, error) { return m.start(b, volume(b), rules) })
}

// TestPowerCuts cuts the power at every effect of every scenario, and at every
// effect of what the node does about it at the next boot. Each time a whole slot
// boots, and an upgrade follows.
func TestPowerCuts(t *testing.T) {
	for _, m := range machines() {
		t.Run(m.name, func(t *testing.T) {
			var all tally
			seen := map[uint64]bool{} // by all scenarios: what follows from a tree is the same
			for _, s := range scenarios() {
				t.Run(s.name, func(t *testing.T) {
					b, err := s.record(m)
					if err != nil {
						t.Fatalf("without a cut: %v", err)
					}
					var count tally
					cuts(b, seen, &count, func(after *fake.BootFiles, at string) bool {
						survives(t, m, after, at, seen, &count)
						return true
					})
					t.Logf("cut_points=%d trees=%d bricked=%d", count.points, count.trees, count.bricks)
					all.points += count.points
					all.bricks += count.bricks
				})
			}
			t.Logf("cut_points=%d bootable=%d bricked=%d", all.points, all.points-all.bricks, all.bricks)
			if all.points < 500 {
				t.Errorf("there were %d cut points; want at least 500", all.points)
			}
		})
	}
}

// survives boots what a cut has left, with cuts during that too, and upgrades.
func survives(t *testing.T, m machine, after *fake.BootFiles, at string, seen map[uint64]bool, count *tally) {
	t.Helper()
	if _, err := Check(volume(after), m.rules); err != nil {
		count.bricks++
		t.Errorf("%s: %v", at, err)
		return
	}
	if err := m.truthful(after); err != nil {
		t.Errorf("%s: %v", at, err)
	}
	running, err := m.start(after, volume(after), m.rules)
	if err != nil {
		t.Errorf("%s: boot: %v", at, err)
		return
	}
	cuts(after, seen, count, func(again *fake.BootFiles, then string) bool {
		survives(t, m, again, at+", and "+then+" of the next boot", seen, count)
		return true
	})
	after.Settle()
	if err := m.upgrade(after, running, "v9"); err != nil {
		t.Errorf("%s: an upgrade of slot %s afterwards: %v", at, running, err)
	}
}
