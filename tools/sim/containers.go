package main

import (
	"strconv"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile"
	"machined/reconcile/resource"
	"machined/reconcile/runtime"
)

const (
	// patience is how long the runtime may run without an answer before it is
	// started again.
	patience = 90 * time.Second
	// inMemory is the place of a runtime that needs no volume.
	inMemory   = "memory"
	markerPath = "/var/imported"
	pauseRef   = "pause:1"
	gib        = 1 << 30
)

// containers is the container runtime of a simulated node: its process, what it
// keeps, and the supervisor that starts it.
type containers struct {
	kept     map[string]*fake.CRI // by the volume that it is on
	place    string               // of the process, "" while there is none
	anywhere bool                 // it needs no volume
	volumes  uint64               // sequence number of VolumeStatus when it was looked at
	volume   string               // EPHEMERAL, "" while it is not ready
	pid      int64
	starts   uint64
	startAt  time.Duration
	answered time.Duration // when it was ready last
	dieAfter int           // calls until the process dies; 0 for not at all

	away      bool            // the registry
	missing   map[string]bool // references that no registry has
	unwell    bool            // what probes ask
	networked bool
	filled    uint64 // bytes that others took of the disk

	mutations, pulls int // calls that changed something
	by               reconcile.Owner
}

func newContainers(w *world) containers {
	return containers{
		kept: map[string]*fake.CRI{}, anywhere: w.chance(30), networked: true, missing: map[string]bool{"none:1": true},
	}
}

// images are those that pods may name, and that the registry or the card has.
func imageSources() (registry, card []fake.Source) {
	image := func(ref string, mib uint64, pinned bool) hal.Image {
		return hal.Image{ID: "sha256:" + ref, Tags: []string{ref}, SizeBytes: mib << 20, Pinned: pinned}
	}
	for i := range uint64(5) {
		ref := "app" + strconv.Itoa(int(i)) + ":1"
		registry = append(registry, fake.Source{Ref: ref, Image: image(ref, 30+20*i, false)})
	}
	card = []fake.Source{
		{Ref: "/usr/pause.tar", Image: image(pauseRef, 1, true)}, {Ref: "/boot/images/a.tar", Image: image("card:1", 40, false)},
		{Ref: "/boot/images/a.tar", Image: image("card:2", 40, false)}, {Ref: "foreign", Image: image("foreign:1", 20, false)},
	}
	return registry, card
}

func bundles() ([]runtime.Bundle, error) {
	return []runtime.Bundle{{Path: "/usr/pause.tar", Ref: pauseRef}, {Path: "/boot/images/a.tar", Stamp: "1 1"}}, nil
}

// inner is what the runtime's process works on, nil while there is none.
func (w *world) inner() *fake.CRI { return w.containers.kept[w.containers.place] }

// open returns what the runtime has on a volume.
func (w *world) open(place string) *fake.CRI {
	c := w.containers.kept[place]
	if c == nil {
		c = fake.NewCRI()
		c.Registry, c.Card = imageSources()
		c.Free -= min(w.containers.filled, c.Free)
		w.containers.kept[place] = c
	}
	return c
}

// supervise stands in for the supervisor: it starts the runtime when its volume is
// there, anew when it has ended, and ends it when it does not answer.
func (w *world) supervise() {
	s, store := &w.containers, w.node.store
	if seq := store.Seq(resource.VolumeStatusKind); seq != s.volumes || s.volume == "" {
		s.volumes, s.volume = seq, w.ephemeral()
	}
	switch disabled := w.node.settings.Runtime.Disabled; {
	case s.place != "" && disabled:
		w.inner().Reboot() // what runs is ended first
		w.kill("the config disables it")
	case disabled:
	case s.place != "" && s.place != s.volume:
		w.kill("its volume is gone")
	case s.place == "" && s.volume != "" && w.now() >= s.startAt:
		s.place = s.volume
		s.pid++
		s.starts++
		s.answered = w.now()
		w.open(s.place)
		w.note("the runtime starts on %s", s.place)
	case s.place != "":
		if _, ready := runtime.Ready(store); ready {
			s.answered = w.now()
		} else if w.now() >= s.answered+patience {
			w.kill("it has not answered for " + patience.String())
		}
	}
	status := resource.ServiceStatus{ServiceID: runtime.ServiceID, State: "Waiting"}
	if s.place != "" {
		status.State, status.PID = "Running", s.pid
	}
	if err := store.Services.Put(s.by, status); err != nil {
		w.fail("simulation", "%v", err)
	}
}

// ephemeral returns the place of a runtime that could run now.
func (w *world) ephemeral() string {
	if w.containers.anywhere {
		return inMemory
	}
	v, _, _ := w.node.store.Volumes.Get(resource.Named("EPHEMERAL"))
	if v.Phase != "Ready" {
		return ""
	}
	_, p := w.partitionAt(v.Device)
	return p.FSUUID
}

// kill ends the runtime's process. Containers go on without it, unless their disk
// has gone.
func (w *world) kill(why string) {
	s := &w.containers
	if s.place == "" {
		return
	}
	w.note("the runtime ends: %s", why)
	if s.volume != s.place {
		w.inner().Reboot()
	}
	s.place, s.dieAfter = "", 0
	w.podJobs.Heal()
	wait := w.between(second/2, 5*second)
	s.startAt = w.now() + time.Duration(wait)
	w.later(wait, func() {})
}

// rebootContainers leaves of the containers what a reboot leaves.
func (w *world) rebootContainers() {
	s := &w.containers
	if c := w.inner(); c != nil {
		c.Reboot()
	}
	s.place, s.volume, s.dieAfter, s.startAt = "", "", 0, 0
	if s.anywhere { // its memory is on no disk, and stands for one all the same
		wait := w.seconds(1, 10)
		s.startAt = w.now() + time.Duration(wait)
		w.later(wait, func() {})
	}
}

// marker returns the path of the marker on the volume that the runtime is on.
func (w *world) marker() string { return "/disk/" + w.containers.place + "/imported" }
