package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"machined/hal"
	"machined/init/supervise"
	"machined/reconcile/block"
)

const (
	// cardPrograms are the programs that the card was written with.
	cardPrograms = bootDir + "/programs"
	// keptPrograms are copies of them that users other than root can execute. FAT
	// has no owners: what is on the card is root's alone, for the keys beside it.
	keptPrograms = ephemeralDir + "/lib/machined/programs"
)

// runByOthers has a service that does not run as root run a copy of its program,
// if that is on the card, which is made before its start.
func (n *node) runByOthers(s *supervise.Service) {
	if s.UID == 0 {
		return
	}
	var copies []string // names
	replace := func(command []string) []string {
		if len(command) == 0 {
			return command
		}
		name, ok := strings.CutPrefix(command[0], cardPrograms+"/")
		if !ok {
			return command
		}
		copies = append(copies, name)
		return append([]string{keptPrograms + "/" + name}, command[1:]...)
	}
	s.Command = replace(s.Command)
	if s.Probe != nil {
		probe := *s.Probe
		probe.Exec = replace(probe.Exec)
		s.Probe = &probe
	}
	if len(copies) == 0 {
		return
	}
	if !slices.Contains(s.Volumes, block.Ephemeral) {
		s.Volumes = append(slices.Clone(s.Volumes), block.Ephemeral)
	}
	s.Prepare = func() hal.Job {
		return n.jobs.Start(func() error {
			for _, name := range copies {
				if err := copyProgram(n.at(cardPrograms+"/"+name), n.at(keptPrograms+"/"+name)); err != nil {
					return fmt.Errorf("copy program %s for users other than root: %w", name, err)
				}
			}
			return nil
		})
	}
}

// copyProgram copies a program, unless the copy is of the same size and time. A
// power cut leaves the old copy, or the new one.
func copyProgram(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if have, err := os.Stat(to); err == nil && have.Size() == info.Size() && have.ModTime().Equal(info.ModTime()) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	partial := to + ".partial"
	if err := writeProgram(from, partial); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	if err := os.Chtimes(partial, info.ModTime(), info.ModTime()); err != nil {
		return err
	}
	return os.Rename(partial, to)
}

func writeProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
