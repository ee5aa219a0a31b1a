package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"machined/api/apitest"
	"machined/api/pki"
	"machined/hal"
)

// writable counts the times that the boot partition was made writable.
type writable struct {
	hal.Mounts
	times int
	err   error // of the next such time
}

func (w *writable) Mount(m hal.Mount) error {
	if m.Flags&hal.Remount != 0 && m.Flags&hal.ReadOnly == 0 {
		w.times++
		if w.err != nil {
			return w.err
		}
	}
	return w.Mounts.Mount(m)
}

func (r *rig) countWrites() *writable {
	w := &writable{Mounts: r.mounts}
	r.node.mounts = w
	return w
}

func fingerprint(t *testing.T, r *rig) string {
	t.Helper()
	b, err := pki.LoadBundle(r.at(cardBundle))
	mustDo(t, err)
	return pki.Fingerprint(b.Cert)
}

// TestFirstBoots follows a node without keys over its boots: the first makes a
// CA and leaves a bundle, later ones keep both, and the first use of the bundle
// clears it from the card.
func TestFirstBoots(t *testing.T) {
	r := newRig(t)
	writes := r.countWrites()
	mustDo(t, r.loadIdentity())
	first := pki.Fingerprint(r.identity.node.CACert)
	if r.identity.node.CA == nil || writes.times != 1 || r.mounts.Flags(bootDir)&hal.ReadOnly == 0 {
		t.Errorf("the CA is %v after %d writes of the card; want one, and the card read-only again", r.identity.node.CA, writes.times)
	}
	owner := fingerprint(t, r)
	r.clearCard()
	if writes.times != 1 {
		t.Error("the card was written before the bundle's use")
	}

	r = r.again(t)
	writes = r.countWrites()
	mustDo(t, r.loadIdentity())
	if got := pki.Fingerprint(r.identity.node.CACert); got != first || fingerprint(t, r) != owner {
		t.Errorf("the second boot has CA %s; want that of the first, %s, and its bundle", got, first)
	}
	r.Used("somebody else")
	r.clearCard()
	if !exists(r.at(cardBundle)) {
		t.Error("the use of another certificate cleared the card")
	}
	for range 3 {
		r.Used(owner)
		r.clearCard()
	}
	if exists(r.at(cardBundle)) || exists(r.at(bundleMark)) || writes.times != 1 {
		t.Errorf("after its use the bundle is there: %v, its mark: %v, %d writes; want neither, and one", exists(r.at(cardBundle)), exists(r.at(bundleMark)), writes.times)
	}
	if n := r.screen.count(r.log, "The client bundle was used and is off the card."); n != 1 {
		t.Errorf("the console says %d times that the bundle is off; want once", n)
	}

	r = r.again(t)
	writes = r.countWrites()
	mustDo(t, r.loadIdentity())
	r.Used(owner)
	r.clearCard()
	if pki.Fingerprint(r.identity.node.CACert) != first || writes.times != 0 {
		t.Errorf("the third boot wrote the card %d times; want 0, and the same CA", writes.times)
	}
}

// TestCardThatCannotBeWritten checks that the bundle's clearing is tried again
// at its next use.
func TestCardThatCannotBeWritten(t *testing.T) {
	r := newRig(t)
	mustDo(t, r.loadIdentity())
	owner := fingerprint(t, r)
	writes := r.countWrites()
	writes.err = errors.New("write-protected")
	r.Used(owner)
	r.clearCard()
	if !r.screen.shows(r.log, "identity: The client bundle is still on the card: write-protected.") {
		t.Error("the console does not say that the bundle is still there")
	}
	writes.err = nil
	r.Used(owner)
	r.clearCard()
	if exists(r.at(cardBundle)) {
		t.Error("the bundle is still on the card")
	}
}

// TestFirstBootIsCut cuts the first boot after each of its steps: no CA may
// come to be whose only client is lost, and no key may stay on the card.
func TestFirstBootIsCut(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(t *testing.T, r *rig)
	}{
		{"after the bundle", func(t *testing.T, r *rig) {
			mustDo(t, os.Remove(r.at(bundleMark)))
			mustDo(t, os.RemoveAll(r.at(statePKI)))
		}},
		{"within the bundle", func(t *testing.T, r *rig) {
			mustDo(t, os.Remove(filepath.Join(r.at(cardBundle), pki.ClientCertFile)))
			mustDo(t, os.Remove(r.at(bundleMark)))
			mustDo(t, os.RemoveAll(r.at(statePKI)))
		}},
		{"after the mark", func(t *testing.T, r *rig) { mustDo(t, os.RemoveAll(r.at(statePKI))) }},
		{"before the CA is in place", func(t *testing.T, r *rig) { mustDo(t, os.Rename(r.at(statePKI), r.at(statePKI)+".new")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			mustDo(t, r.loadIdentity())
			c.cut(t, r)
			r = r.again(t)
			mustDo(t, r.loadIdentity())
			b, err := pki.LoadBundle(r.at(cardBundle))
			mustDo(t, err)
			if err := b.Cert.CheckSignatureFrom(r.identity.node.CACert); err != nil {
				t.Errorf("the bundle on the card is not of the node's CA: %v", err)
			}
			r.Used(pki.Fingerprint(b.Cert))
			r.clearCard()
			if exists(r.at(cardBundle)) {
				t.Error("the bundle stays on the card after its use")
			}
		})
	}
}

func TestIdentitySources(t *testing.T) {
	now := time.Unix(y2026, 0)
	card := func(t *testing.T, r *rig) string {
		node := apitest.NewNode(t, apitest.NewCA(t, "card", now), now)
		mustDo(t, pki.WriteNode(r.at(cardPKI), node))
		return pki.Fingerprint(node.Cert)
	}
	t.Run("card, then STATE", func(t *testing.T) {
		r := newRig(t)
		want := card(t, r)
		mustDo(t, r.loadIdentity())
		mustDo(t, os.RemoveAll(r.at(cardPKI)))
		r = r.again(t)
		mustDo(t, r.loadIdentity())
		if got := pki.Fingerprint(r.identity.node.Cert); got != want || exists(r.at(cardBundle)) {
			t.Errorf("after the card's keys are gone the node is %s; want %s of STATE, and no bundle made", got, want)
		}
	})
	t.Run("card without STATE", func(t *testing.T) {
		r := newRig(t)
		mustDo(t, os.Remove(r.at(stateMarker)))
		want := card(t, r)
		mustDo(t, r.loadIdentity())
		if got := pki.Fingerprint(r.identity.node.Cert); got != want || exists(r.at(statePKI)) {
			t.Errorf("the node is %s; want %s, and nothing written where STATE is not", got, want)
		}
	})
	t.Run("resident without keys", func(t *testing.T) {
		r := newRig(t)
		r.boot.Resident = true
		if err := r.loadIdentity(); err != nil || r.identity != nil || exists(r.at(statePKI)) || exists(r.at(cardBundle)) {
			t.Errorf("loadIdentity() = %v, %v; want neither: the successor makes it", r.identity, err)
		}
	})
}

// TestStateThatKeepsNothing: a node with its PKI on the card lost its API when
// STATE could not be written to.
func TestStateThatKeepsNothing(t *testing.T) {
	r := newRig(t)
	now := time.Unix(y2026, 0)
	node := apitest.NewNode(t, apitest.NewCA(t, "card", now), now)
	mustDo(t, pki.WriteNode(r.at(cardPKI), node))
	write(t, r.at(statePKI)+".new/in-the-way", "")
	mustDo(t, r.loadIdentity())
	if r.identity == nil || r.identity.kept || !r.screen.shows(r.log, "identity: The card's PKI is used, and not kept on STATE: ") {
		t.Errorf("the identity is %+v; want the card's, and a word that it is not kept", r.identity)
	}
}

// TestStateOfAnotherNode: a node that has begun with the card's PKI goes over
// to that of a late STATE, which comes first at any other start. Meanwhile a
// renewal must not put a certificate of the card's key among STATE's files: no
// later start could use them.
func TestStateOfAnotherNode(t *testing.T) {
	r := newRig(t)
	now := time.Unix(y2026, 0)
	mustDo(t, os.Remove(r.at(stateMarker)))
	ca := apitest.NewCA(t, "card", now)
	card := apitest.NewNode(t, ca, now.AddDate(1, 0, 0))
	card.CA = ca
	mustDo(t, pki.WriteNode(r.at(cardPKI), card))
	mustDo(t, r.loadIdentity())
	mustDo(t, r.clock.Set(now.UnixNano()))
	late := apitest.NewNode(t, apitest.NewCA(t, "late", now), now)
	mustDo(t, pki.WriteNode(r.at(statePKI), late))
	r.state.ready = true
	r.synced(t, 1)
	if r.identity.node.Cert.Equal(card.Cert) {
		t.Error("the card's certificate, which is of next year, was not renewed")
	}
	mustDo(t, r.markState())
	r.inherit(t)
	r.withState()
	defer r.server.Stop(time.Second)
	if !r.identity.kept || !r.identity.node.Cert.Equal(late.Cert) {
		t.Errorf("the certificate is %s, kept: %v; want that of STATE", pki.Fingerprint(r.identity.node.Cert), r.identity.kept)
	}
	if _, err := pki.LoadNode(r.at(statePKI)); err != nil {
		t.Errorf("STATE's PKI was damaged: %v", err)
	}
}

// TestNoNewKeys checks that whatever there is of keys is never replaced.
func TestNoNewKeys(t *testing.T) {
	now := time.Unix(y2026, 0)
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, r *rig)
		is     func(error) bool
	}{
		{"STATE lacks a key", func(t *testing.T, r *rig) {
			mustDo(t, pki.WriteNode(r.at(statePKI), apitest.NewNode(t, apitest.NewCA(t, "state", now), now)))
			mustDo(t, os.Remove(filepath.Join(r.at(statePKI), pki.NodeKeyFile)))
		}, isPartial},
		{"the card lacks a certificate", func(t *testing.T, r *rig) {
			mustDo(t, pki.WriteNode(r.at(cardPKI), apitest.NewNode(t, apitest.NewCA(t, "card", now), now)))
			mustDo(t, os.Remove(filepath.Join(r.at(cardPKI), pki.NodeCertFile)))
		}, isPartial},
		{"STATE is not mounted", func(t *testing.T, r *rig) { mustDo(t, os.Remove(r.at(stateMarker))) },
			func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		{"the card is read-only for good", func(t *testing.T, r *rig) { r.countWrites().err = errors.New("write-protected") },
			func(err error) bool { return err != nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.damage(t, r)
			before := listing(t, r.root)
			if err := r.loadIdentity(); !c.is(err) || r.identity != nil {
				t.Errorf("loadIdentity() = %v, %v; want an error and no identity", r.identity, err)
			}
			if after := listing(t, r.root); after != before {
				t.Errorf("files went from %s to %s; want them as they were", before, after)
			}
		})
	}
}

func isPartial(err error) bool {
	var partial *pki.PartialError
	return errors.As(err, &partial)
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	all := ""
	mustDo(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all += path + "\n"
		return err
	}))
	return all
}

// TestClockFloor checks that a node whose clock starts in 1970 steps it to
// where its own certificate is valid.
func TestClockFloor(t *testing.T) {
	r := newRig(t)
	now := time.Unix(y2026, 0)
	mustDo(t, r.clock.Set(0))
	mustDo(t, pki.WriteNode(r.at(statePKI), apitest.NewNode(t, apitest.NewCA(t, "state", now), now)))
	mustDo(t, r.loadIdentity())
	if r.clock.Now() != now.UnixNano() {
		t.Errorf("the clock is at %s; want %s, when the certificate was made", time.Unix(0, r.clock.Now()).UTC(), now.UTC())
	}
	r.clock.Fail("Set", 1, errors.New("no clock"))
	if stepped, err := floorClock(r.clock, now.Add(time.Hour), r.ceiling()); stepped || err == nil {
		t.Errorf("floorClock on a clock that refuses = %v, %v; want an error", stepped, err)
	}
	if stepped, err := floorClock(r.clock, now, r.ceiling()); stepped || err != nil {
		t.Errorf("floorClock with the clock at its floor = %v, %v; want nothing done", stepped, err)
	}
}

// TestUsedIsRaceFree tells of a fingerprint that API calls read while the loop
// cleared it; it is for the race detector.
func TestUsedIsRaceFree(t *testing.T) {
	r := newRig(t)
	mustDo(t, r.loadIdentity())
	owner := fingerprint(t, r)
	writes := r.countWrites()
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 1000 {
				r.Used(owner)
			}
		})
	}
	for range 100 {
		r.clearCard()
	}
	calls.Wait()
	r.clearCard()
	if exists(r.at(cardBundle)) || writes.times != 1 {
		t.Errorf("%d writes of the card, bundle there: %v; want one write, and it gone", writes.times, exists(r.at(cardBundle)))
	}
}
