package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"machined/api"
	"machined/hal"
	"machined/hal/linux"
)

// slowCard is STATE on a card that takes its time: each write of a config waits for
// one of goOn. What is not in STATE is in RAM.
type slowCard struct {
	linux.Files
	state  string
	begun  chan struct{}
	goOn   chan struct{}
	writes chan string
}

func (c *slowCard) Replace(path string, data []byte, public bool) error {
	if strings.HasPrefix(path, c.state) {
		c.begun <- struct{}{}
		<-c.goOn
		defer func() { c.writes <- string(data) }()
	}
	return c.Files.Replace(path, data, public)
}

var _ hal.Files = (*slowCard)(nil)

// TestApplyOnSlowCard: the loop waited for the card whenever a config was applied,
// and the watchdog for the loop. Of two that come at once, the second waits for the
// first, and is judged by it.
func TestApplyOnSlowCard(t *testing.T) {
	r := newRig(t)
	card := &slowCard{state: r.at(stateDir + "/config"), begun: make(chan struct{}), goOn: make(chan struct{}), writes: make(chan string, 9)}
	r.files = card
	mustDo(t, r.loadConfig())
	mustDo(t, r.startControllers())
	var all [2]api.Applied
	answers := make(chan error)
	apply := func(i int, text string) {
		var err error
		all[i], err = r.ApplyConfig("laptop", []byte(text), false)
		answers <- err
	}
	const one, two = "machine: {watchdog: {disabled: true}}\n", "machine: {hostname: two}\n"
	go apply(0, one)
	<-card.begun
	go apply(1, two)
	passed := make(chan error, 1)
	go func() {
		r.pass()
		passed <- r.loadConfig() // as for a STATE that comes late
	}()
	select {
	case err := <-passed:
		mustDo(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the loop waits for the card")
	}
	close(card.goOn)
	for answered := 0; answered < 2; {
		select {
		case <-card.begun:
		case <-r.kicks:
			r.followConfig()
		case err := <-answers:
			answered++
			mustDo(t, err)
		}
	}
	for i, want := range []string{one, one, two} { // the second one moves the first up
		if got := <-card.writes; got != want {
			t.Errorf("write %d is of %q; want %q", i, got, want)
		}
	}
	if got := all[1].AfterReboot; !slices.Equal(got, []string{"machine.watchdog.disabled"}) || r.hostname() != "two" {
		t.Errorf("the node is %s, and the second config waits for the next boot with %q; want it compared with the first", r.hostname(), got)
	}
}
