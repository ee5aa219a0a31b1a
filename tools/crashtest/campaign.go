package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"machined/tools/crash"
	"machined/tools/crashtest/blocklog"
	"machined/tools/crashtest/judge"
	"machined/tools/crashtest/replay"
	"machined/tools/crashtest/scenario"
)

// recording is a job whose writes were recorded.
type recording struct {
	drive
	name    string // for messages
	backend scenario.Backend
	size    int64                        // of the boot partition, in bytes
	fill    func(boot io.WriterAt) error // writes what it held before
	events  []replay.Event
}

// campaign judges the cuts of recordings.
type campaign struct {
	options
	fsck judge.Fsck
	dir  string // for scratch files
}

// read reads the record of a recording.
func (r *recording) read() error {
	data, err := os.ReadFile(r.log)
	if err != nil {
		return err
	}
	record, err := blocklog.Read(bytes.NewReader(data))
	if err == nil {
		r.events, err = replay.Events(record, r.size)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.log, err)
	}
	return nil
}

// judging is the judging of one recording.
type judging struct {
	*campaign
	*recording
	volume *judge.Volume
	judge  judge.Judge
	boots  map[[16]byte]bootOutcome // by image
	spoilt bool                     // a sabotage: bricks are wanted, and nothing else is looked at
	counts counts
	sample *sample
}

type bootOutcome struct {
	slot string
	err  error
}

// errEnough ends the search of a sabotage.
var errEnough = errors.New("enough bricks")

const (
	enoughBricks = 20
	// keptImages is how many images of faults are kept of a recording.
	keptImages = 3
)

// judgeRecording goes through all cuts of a recording. step is called at each
// event.
func (c *campaign) judgeRecording(r *recording, step func() error) (counts, *sample, error) {
	t := &judging{campaign: c, recording: r, boots: map[[16]byte]bootOutcome{}, spoilt: r.job.Mode == scenario.NoFlush || r.job.Mode == scenario.NoOrder, sample: &sample{size: c.kernelUpgrades}}
	base := filepath.Join(c.dir, r.job.Serial())
	var err error
	if t.volume, err = judge.NewVolume(base+".work", r.size); err != nil {
		return counts{}, nil, err
	}
	defer t.volume.Close()
	scratch, err := judge.NewVolume(base+".scratch", r.size)
	if err != nil {
		return counts{}, nil, err
	}
	defer scratch.Close()
	t.judge = judge.Judge{Backend: r.backend, Fsck: c.fsck, Scratch: scratch}
	if err := r.fill(t.volume); err != nil {
		return counts{}, nil, err
	}
	play := replay.Replay{Events: r.events, Image: t.volume, Subsets: c.subsets, Seed: replay.Seed(c.seed, r.job.Serial())}
	err = play.Each(step, t.cut)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return t.counts, t.sample, err
}

// cut judges a cut.
func (t *judging) cut(c replay.Cut, in replay.In) error {
	t.counts.points++
	outcome, known := t.boots[c.Key]
	if !known {
		err := in(func() error {
			outcome = t.image(c)
			return nil
		})
		if err != nil {
			return err
		}
		t.boots[c.Key] = outcome
	}
	switch {
	case errors.Is(outcome.err, crash.ErrBrick):
		t.counts.bricked++
		if t.spoilt && t.counts.bricked == enoughBricks {
			return errEnough
		}
		return t.fault(c, in, outcome.err)
	case outcome.err != nil:
		return outcome.err
	case t.spoilt:
		return nil
	case !slices.Contains(c.Allowed, outcome.slot):
		t.counts.wrong++
		return t.fault(c, in, fmt.Errorf("the firmware boots slot %s; want %v: %w", outcome.slot, c.Allowed, judge.ErrWrong))
	case c.Flagged != "":
		return in(func() error { return t.flagged(c) })
	}
	return nil
}

// image judges an image that is new.
func (t *judging) image(c replay.Cut) bootOutcome {
	t.counts.images++
	slot, err := t.judge.Boots(t.volume, t.backend.Rules)
	if err != nil || t.spoilt {
		return bootOutcome{slot, err}
	}
	if err := t.sound(c); err != nil {
		t.counts.broken++
		if err := t.fault(c, already, err); err != nil {
			return bootOutcome{slot, err}
		}
	}
	return bootOutcome{slot, nil}
}

// sound checks the file system, and that an upgrade follows.
func (t *judging) sound(c replay.Cut) error {
	if int(c.Key[0]) < t.fsckShare {
		t.counts.checked++
		if err := t.judge.Repair(t.volume, c.Allowed, &t.counts.repairs); err != nil {
			return err
		}
	}
	if err := t.sample.offer(t, c); err != nil {
		return err
	}
	fresh, err := t.judge.Upgrade(t.volume)
	if fresh {
		t.counts.upgraded++
	}
	if err != nil {
		return fmt.Errorf("a second upgrade: %w", err)
	}
	return nil
}

// flagged judges what the firmware does with the flag of a trial.
func (t *judging) flagged(c replay.Cut) error {
	t.counts.points++
	slot, err := t.judge.Boots(t.volume, crash.Trial)
	switch {
	case errors.Is(err, crash.ErrBrick):
		t.counts.bricked++
	case err == nil && slot != c.Flagged:
		t.counts.wrong++
		err = fmt.Errorf("slot %s; want %s: %w", slot, c.Flagged, judge.ErrWrong)
	}
	if err != nil {
		return t.fault(c, already, fmt.Errorf("the firmware, with the flag of a trial, boots: %w", err))
	}
	return nil
}

// already is for when the image is that of the cut.
func already(do func() error) error { return do() }

// fault keeps what was found, and the image for a look.
func (t *judging) fault(c replay.Cut, in replay.In, err error) error {
	if t.spoilt {
		return nil
	}
	f := fault{scenario: t.name, cut: c, err: err}
	if len(t.counts.faults) < keptImages {
		f.image = filepath.Join(t.keep, fmt.Sprintf("%s-%d-%x.img", t.job.Serial(), c.Position, c.Key[:4]))
		if err := in(func() error { return saveImage(f.image, t.volume, t.size) }); err != nil {
			return err
		}
	}
	t.counts.faults = append(t.counts.faults, f)
	return nil
}
