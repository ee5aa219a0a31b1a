package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"machined/hal/linux"
	"machined/init/supervise"
)

// TestProgramForOthers: a program on the card is root's alone, and services of
// other users got "permission denied" from it.
func TestProgramForOthers(t *testing.T) {
	n := &node{root: t.TempDir()}
	n.jobs = linux.NewJobs(func() {})
	card := n.at(cardPrograms)
	if err := os.MkdirAll(card, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string, at time.Time) {
		t.Helper()
		path := filepath.Join(card, "web")
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	first := time.Unix(1767225600, 0)
	write("one", first)
	s := supervise.Service{
		ID: "web", UID: 1000, Command: []string{cardPrograms + "/web", "-v"}, Volumes: []string{"STATE"},
		Probe: &supervise.Probe{Kind: supervise.ProbeExec, Exec: []string{cardPrograms + "/web", "check"}},
	}
	n.runByOthers(&s)
	kept := keptPrograms + "/web"
	if !slices.Equal(s.Command, []string{kept, "-v"}) || s.Probe.Exec[0] != kept || !slices.Equal(s.Volumes, []string{"STATE", "EPHEMERAL"}) {
		t.Errorf("the service is %+v, %+v; want it to run the copy, once EPHEMERAL is there", s, s.Probe)
	}
	prepare := func() os.FileInfo {
		t.Helper()
		job := s.Prepare()
		waitUntil(t, job.Done)
		if err := job.Err(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(n.at(kept))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before := prepare()
	if before.Mode().Perm() != 0o755 {
		t.Errorf("the copy has the mode %v; want 0755", before.Mode())
	}
	if again := prepare(); !os.SameFile(before, again) {
		t.Error("the copy is made anew though the program is the same")
	}
	write("two", first.Add(time.Minute)) // of the same size
	prepare()
	if text, err := os.ReadFile(n.at(kept)); err != nil || string(text) != "two" {
		t.Errorf("the copy of the new program is %q, %v", text, err)
	}
	for _, s := range []supervise.Service{
		{ID: "root", Command: []string{cardPrograms + "/web"}}, {ID: "slot", UID: 7, Command: []string{"/usr/bin/runc"}},
	} {
		want := s.Command[0]
		if n.runByOthers(&s); s.Command[0] != want || s.Prepare != nil || len(s.Volumes) != 0 {
			t.Errorf("service %s is %+v; want it left alone", s.ID, s)
		}
	}
}
