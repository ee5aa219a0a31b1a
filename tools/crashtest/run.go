package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"machined/tools/crashtest/judge"
	"machined/tools/crashtest/scenario"
	"machined/tools/lab"
	"machined/tools/progress"
)

// patience is a time-out for a guest: emulation on a busy machine is slow.
const patience = 5 * time.Minute

// cutEverywhere records, judges, and upgrades a sample.
func cutEverywhere(ctx context.Context, o options, stderr io.Writer) (results, error) {
	fsck, err := judge.FindFsck()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.keep, 0o755); err != nil {
		return nil, err
	}
	dir, err := lab.Scratch()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m, err := newMachine(dir)
	if err != nil {
		return nil, err
	}
	c := &campaign{options: o, fsck: fsck, dir: dir}
	list, err := c.record(ctx, m, stderr)
	if err != nil {
		return nil, err
	}
	r := results{}
	samples, err := c.judgeAll(ctx, list, r, stderr)
	if err != nil {
		return nil, err
	}
	list, err = c.upgradeAll(ctx, m, samples, r, stderr)
	if err != nil {
		return nil, err
	}
	// Where the power goes a second time, less is looked at: what a cut leaves is
	// much the same.
	var some []*recording
	for i, rec := range list {
		if i%2 == 0 {
			some = append(some, rec)
		}
	}
	again := *c
	again.kernelUpgrades, again.subsets, again.fsckShare = 0, 1, c.fsckShare/8
	_, err = again.judgeAll(ctx, some, r, stderr)
	return r, err
}

// record runs all scenarios in one guest.
func (c *campaign) record(ctx context.Context, m machine, stderr io.Writer) ([]*recording, error) {
	list := c.recordings()
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no scenario %q", c.only)
	}
	ended, err := c.guest(ctx, m, list, stderr, "recording")
	if err != nil {
		return nil, err
	}
	for i, r := range list {
		if err := errors.Join(ended[i], r.read(), os.Remove(r.path)); err != nil {
			return nil, fmt.Errorf("record %s: %w", r.job.Serial(), err)
		}
	}
	return list, nil
}

// recordings returns what is to be recorded.
func (c *campaign) recordings() []*recording {
	var list []*recording
	for _, b := range scenario.Backends() {
		for i, s := range scenario.Scenarios() {
			if c.only != "" && c.only != s.Name {
				continue
			}
			size := int64(smallVolume)
			if i%2 == 1 {
				size = largeVolume
			}
			for _, mode := range []scenario.Mode{scenario.Real, scenario.NoFlush, scenario.NoOrder} {
				if mode != scenario.Real && s.Name != sabotaged {
					continue
				}
				r := &recording{backend: b, size: size, name: b.Name + "/" + s.Name}
				r.job = scenario.Job{Backend: b.Name, Name: s.Name, Mode: mode}
				r.fill = func(boot io.WriterAt) error { return format(boot, size, b.Tree()) }
				list = append(list, r)
			}
		}
	}
	return list
}

// sabotaged is the scenario that is recorded without flushes and without order,
// too.
const sabotaged = "commit"

// guest makes the disks and has a guest do their jobs. It returns what went wrong
// with each.
func (c *campaign) guest(ctx context.Context, m machine, list []*recording, stderr io.Writer, what string) ([]error, error) {
	var drives []drive
	for _, r := range list {
		r.path = filepath.Join(c.dir, r.job.Serial())
		r.log = r.path + ".log"
		if err := makeDisk(r.path, r.size, r.fill); err != nil {
			return nil, err
		}
		drives = append(drives, r.drive)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer progress.Spin(stderr, what)()
	return m.run(ctx, drives)
}

// judgeAll goes through all recordings, several at a time, and adds to r what is
// found. It returns a sample of the images.
func (c *campaign) judgeAll(ctx context.Context, list []*recording, r results, stderr io.Writer) ([]sampled, error) {
	total := 0
	for _, r := range list {
		total += len(r.events)
	}
	draw := bar(stderr, total)
	step := func() error {
		draw()
		return ctx.Err()
	}
	var samples []sampled
	var failed error
	var mu sync.Mutex
	work := make(chan *recording)
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() {
			for rec := range work {
				found, s, err := c.judgeRecording(rec, step)
				mu.Lock()
				r.add(rec.job, found)
				failed = errors.Join(failed, err)
				if s != nil {
					samples = append(samples, s.images...)
				}
				mu.Unlock()
			}
		})
	}
	for _, rec := range list {
		work <- rec
	}
	close(work)
	workers.Wait()
	return samples, failed
}

// upgradeAll upgrades the samples in one guest, and returns the records of that.
func (c *campaign) upgradeAll(ctx context.Context, m machine, samples []sampled, r results, stderr io.Writer) ([]*recording, error) {
	if len(samples) == 0 {
		return nil, nil
	}
	var list []*recording
	for i, s := range samples {
		b, err := scenario.Find(s.job.Backend)
		if err != nil {
			return nil, err
		}
		again := &recording{backend: b, size: s.size, name: s.String(), fill: s.fill}
		// For the scenario's name the serial number has no room.
		again.job = scenario.Job{Backend: b.Name, Name: fmt.Sprint(i), Mode: scenario.Upgrade}
		list = append(list, again)
	}
	ended, err := c.guest(ctx, m, list, stderr, "upgrading")
	if err != nil {
		return nil, err
	}
	var whole []*recording
	for i, again := range list {
		err := ended[i]
		if err == nil {
			err = c.check(again)
		}
		if err == nil {
			err = again.read()
		}
		if err != nil {
			r.add(again.job, counts{broken: 1, faults: []fault{{scenario: samples[i].from, cut: samples[i].cut, err: fmt.Errorf("an upgrade over the kernel's file system: %w", err)}}})
			continue
		}
		r.add(again.job, counts{kernel: 1})
		whole = append(whole, again)
	}
	return whole, nil
}
