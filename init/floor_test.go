package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"machined/api/pki"
	"machined/reconcile"
	"machined/reconcile/resource"
	"machined/reconcile/timesync"
)

func TestKeptClock(t *testing.T) {
	for _, c := range []struct {
		name, kept string
		want       int64 // seconds after the start of 2026
		fails      bool
	}{
		{"later", "1767229200\n", 3600, false}, {"earlier", "1767222000\n", 0, false}, {"none", "", 0, false},
		{"nonsense", "yesterday\n", 0, true}, {"far away", "99999999999\n", 0, true},
		{"the last that is believed", "2397859200\n", 20*365*86400 - 86400, false},
		{"past all belief", "2397945600\n", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.built = y2026 * 1e9
			if c.kept != "" {
				write(t, r.at(clockFile), c.kept)
			}
			if err := r.raiseToKept(); (err != nil) != c.fails {
				t.Errorf("raiseToKept() = %v; want an error: %v", err, c.fails)
			}
			if got := r.clock.Now()/1e9 - y2026; got != c.want {
				t.Errorf("the clock stands %d s after the start of 2026; want %d", got, c.want)
			}
		})
	}
}

// TestAbsurdClock tells of a board whose clock had lost its battery and woke up in
// 2099, and of one that an absurd word of a server had put there for good, by the
// time that it kept: no client certificate was valid on them.
func TestAbsurdClock(t *testing.T) {
	r := newRig(t)
	r.built = y2026 * 1e9
	absurd := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	mustDo(t, r.clock.Set(absurd.UnixNano()))
	mustDo(t, r.raiseClock(time.Unix(0, r.built)))
	if got := r.clock.Now(); got != r.built {
		t.Errorf("the clock is at %s; want the build's time", time.Unix(0, got).UTC())
	}
	if !r.screen.shows(r.log, "The clock stood at 2099-01-01T00:00:00Z, more than 20 years after this program was built, and was set to 2026-01-01T00:00:00Z.") {
		t.Error("the console does not say that the clock was set")
	}
	write(t, r.at(clockFile), timesync.FormatTime(absurd.UnixNano()))
	err := r.raiseToKept()
	if err == nil || !strings.Contains(err.Error(), "raise the clock to 2099-01-01T00:00:00Z: that is more than 20 years after this program was built") {
		t.Errorf("raiseToKept() = %v; want the time refused", err)
	}
	if err := r.raiseToKept(); err != nil {
		t.Errorf("raiseToKept() again = %v; want it said once", err)
	}
	if got := r.clock.Now(); got != r.built {
		t.Errorf("the clock is at %s; want it left where it was", time.Unix(0, got).UTC())
	}
	// A time before it that is kept is still of use.
	write(t, r.at(clockFile), "1767229200\n")
	mustDo(t, r.raiseToKept())
	if got := r.clock.Now()/1e9 - y2026; got != 3600 {
		t.Errorf("the clock stands %d s after the start of 2026; want 3600", got)
	}
	// Somebody on the node sets the clock before it goes down.
	r.state.ready = true
	r.synced(t, 1)
	mustDo(t, r.clock.Set(absurd.UnixNano()))
	r.keepClock()
	if got, err := os.ReadFile(r.at(clockFile)); err != nil || string(got) != "1767229200\n" {
		t.Errorf("STATE keeps %q, %v; want what it had", got, err)
	}
}

// synced plays the time controller.
func (r *rig) synced(t *testing.T, count uint64) {
	t.Helper()
	by, err := r.store.Register("time", reconcile.Output{Kind: resource.TimeStatusKind, Shared: true})
	if err != nil {
		by = 3 // registered before: the loop, machined, and this
	}
	mustDo(t, r.store.Time.Put(by, resource.TimeStatus{Synced: true, Server: "ntp", SyncCount: count}))
	r.followClock()
}

// TestClockIsKeptAtTheEnd: only a time that a server has said is kept.
func TestClockIsKeptAtTheEnd(t *testing.T) {
	r := newRig(t)
	r.state.ready = true
	r.keepClock()
	if exists(r.at(clockFile)) {
		t.Error("a time that nobody has said was kept")
	}
	r.synced(t, 1)
	r.clock.Advance(int64(time.Hour))
	r.keepClock()
	if got, err := os.ReadFile(r.at(clockFile)); err != nil || string(got) != "1767229200\n" {
		t.Errorf("STATE keeps %q, %v; want the time now", got, err)
	}
}

// TestCertificateFollowsClock: a node whose clock was ahead when it made its
// certificate gets one that is in force when the clock is set; its CA stays, if
// that is in force.
func TestCertificateFollowsClock(t *testing.T) {
	r := newRig(t)
	r.state.ready = true
	mustDo(t, r.loadIdentity())
	ca := pki.Fingerprint(r.identity.node.CACert)
	// A certificate of next year, of the CA of this one.
	ahead, err := r.identity.node.CA.IssueNode([]string{"board"}, time.Unix(y2026, 0).AddDate(1, 0, 0))
	mustDo(t, err)
	ahead.CA = r.identity.node.CA
	mustDo(t, os.RemoveAll(r.at(statePKI)))
	mustDo(t, pki.WriteNode(r.at(statePKI), ahead))
	r.identity.use(ahead)
	settings := r.identity.settings()
	r.synced(t, 1)
	cert := r.identity.node.Cert
	now := time.Unix(0, r.clock.Now())
	if now.Before(cert.NotBefore) || pki.Fingerprint(r.identity.node.CACert) != ca {
		t.Errorf("the certificate begins %s, its CA has changed: %v; want it in force, of the same CA", cert.NotBefore, pki.Fingerprint(r.identity.node.CACert) != ca)
	}
	kept, err := pki.LoadNode(r.at(statePKI))
	if err != nil || !kept.Cert.Equal(cert) {
		t.Errorf("STATE does not keep the new certificate: %v", err)
	}
	// The server was started with the old one.
	present, err := settings.GetConfigForClient(nil)
	if err != nil || !present.Certificates[0].Leaf.Equal(cert) {
		t.Errorf("a new connection sees another certificate: %v", err)
	}
	before := r.identity.node
	r.synced(t, 2)
	if r.identity.node != before {
		t.Error("a certificate in force was renewed")
	}
}

// TestCAOfTheFuture: a board whose clock was years ahead on its first boot makes
// its CA anew, since nobody can have used it; once somebody has, it stays.
func TestCAOfTheFuture(t *testing.T) {
	for _, used := range []bool{false, true} {
		r := newRig(t)
		r.state.ready = true
		mustDo(t, r.clock.Set((y2026+400*86400)*1e9))
		mustDo(t, r.loadIdentity())
		ca := pki.Fingerprint(r.identity.node.CACert)
		if used {
			r.Used(fingerprint(t, r))
			r.clearCard()
		}
		mustDo(t, r.clock.Set(y2026*1e9))
		r.synced(t, 1)
		if same := pki.Fingerprint(r.identity.node.CACert) == ca; same != used {
			t.Errorf("bundle used: %v: the CA is the same: %v; want %v", used, same, used)
		}
		if used && !r.screen.shows(r.log, "the CA is not in force") {
			t.Error("the console does not say that the CA is not in force")
		}
		if !used {
			b, err := pki.LoadBundle(r.at(cardBundle))
			if err != nil || b.Cert.CheckSignatureFrom(r.identity.node.CACert) != nil {
				t.Errorf("the bundle on the card is not of the new CA: %v", err)
			}
		}
	}
}
