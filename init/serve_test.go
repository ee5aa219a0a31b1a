package main

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"machined/api/apitest"
	"machined/api/client"
	"machined/api/pki"
	"machined/init/supervise"
	"machined/reconcile/resource"
)

// sockets opens those of the API, on ports of their own, or fails.
type sockets struct {
	open   []net.Listener
	refuse error
}

func (s *sockets) listen() (net.Listener, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		s.open = append(s.open, l)
	}
	return l, err
}

// last returns the socket that was opened last.
func (s *sockets) last() net.Listener { return s.open[len(s.open)-1] }

// serves starts the API, and returns its sockets and an admin.
func (r *rig) serves(t *testing.T) (*sockets, *pki.Bundle) {
	t.Helper()
	now := time.Now()
	ca := apitest.NewCA(t, "test", now)
	mustDo(t, pki.WriteNode(r.at(cardPKI), apitest.NewNode(t, ca, now)))
	mustDo(t, r.loadIdentity())
	s := &sockets{}
	r.node.listenAPI = s.listen
	mustDo(t, r.startAPI())
	t.Cleanup(func() { r.server.Stop(0) })
	return s, apitest.NewBundle(t, ca, now, time.Hour, pki.RoleAdmin)
}

// fails closes the socket under the API, and waits until that is known.
func (r *rig) fails(t *testing.T, l net.Listener) {
	t.Helper()
	l.Close()
	for range 1000 {
		if r.node.serving.ended.Load() != nil {
			r.pass()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nobody notices that the API's socket is gone")
}

func (r *rig) apiSays(t *testing.T, want supervise.State, message string) {
	t.Helper()
	s, _, _ := r.store.Services.Get(resource.Named("api"))
	if s.State != want.String() || s.Healthy != (want == supervise.Running) || !strings.Contains(s.Message, message) {
		t.Errorf("at %d s the API is %+v; want it %s, %q", r.clock.SinceBoot()/1e9, s, want, message)
	}
}

// TestAPIFails tells of an API whose socket failed: the node said that it was
// healthy, an upgrade was kept, and nobody could reach it until it was restarted.
func TestAPIFails(t *testing.T) {
	r := newRig(t)
	s, admin := r.serves(t)
	r.pass()
	r.apiSays(t, supervise.Running, "listening on port 50000")
	r.fails(t, s.last())
	r.apiSays(t, supervise.Failed, "use of closed network connection; listening again after 1s")
	if why := r.unhealthy(r.clock.SinceBoot()); !strings.HasPrefix(why, "the API is not up: serve the API on ") {
		t.Errorf("unhealthy() = %q; want no upgrade kept without the API", why)
	}
	if len(s.open) != 1 {
		t.Fatalf("%d sockets at once; want a pause first", len(s.open))
	}
	if wait := r.pass(); wait > time.Second {
		t.Errorf("the loop sleeps for %s; want it back in a second", wait)
	}
	r.clock.Advance(int64(time.Second))
	r.pass()
	r.apiSays(t, supervise.Running, "listening on port 50000")
	c, err := client.Dial(s.last().Addr().String(), admin, client.Options{})
	mustDo(t, err)
	defer c.Close()
	if v, err := c.Version(t.Context()); err != nil || v.GetSlot() != "A" {
		t.Errorf("Version = %v, %v; want the node reached again", v, err)
	}
	if !r.screen.shows(r.log, "api: Failed: serve the API on ") || !r.screen.shows(r.log, "api: Running.") {
		t.Error("the console does not say that the API was gone and is back")
	}
}

// TestAPIPauses: a port that another program has is asked for ever more slowly, and
// soon again once the API has been well.
func TestAPIPauses(t *testing.T) {
	r := newRig(t)
	s, _ := r.serves(t)
	r.pass()
	s.refuse = errors.New("address already in use")
	r.fails(t, s.last())
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		r.apiSays(t, supervise.Failed, "listening again after "+(pause*time.Second).String())
		r.clock.Advance(int64(pause*time.Second) - 1)
		r.pass()
		r.apiSays(t, supervise.Failed, "listening again after "+(pause*time.Second).String())
		r.clock.Advance(1)
		r.pass()
	}
	s.refuse = nil
	r.clock.Advance(int64(time.Minute))
	r.pass()
	r.apiSays(t, supervise.Running, "")
	r.fails(t, s.last())
	r.apiSays(t, supervise.Failed, "listening again after 1m0s") // it has not been well for long
	r.clock.Advance(int64(time.Minute))
	r.pass()
	r.clock.Advance(int64(2 * time.Minute))
	r.pass()
	r.fails(t, s.last())
	r.apiSays(t, supervise.Failed, "listening again after 1s")
}

// TestAPIPortTaken: the first try is not the last one.
func TestAPIPortTaken(t *testing.T) {
	r := newRig(t)
	s := &sockets{refuse: errors.New("address already in use")}
	mustDo(t, r.loadIdentity())
	r.node.listenAPI = s.listen
	if err := r.startAPI(); err == nil || err.Error() != "start the API: address already in use" {
		t.Errorf("startAPI() = %v; want the reason", err)
	}
	r.pass()
	r.apiSays(t, supervise.Failed, "address already in use; listening again after 1s")
	s.refuse = nil
	r.clock.Advance(int64(time.Second))
	r.pass()
	r.apiSays(t, supervise.Running, "")
	r.server.Stop(0)
}

// TestStoppedAPI: a server that was stopped on purpose is not missed, and the one
// that follows it not blamed.
func TestStoppedAPI(t *testing.T) {
	r := newRig(t)
	s, _ := r.serves(t)
	r.node.serving.ended.Store(&servingEnd{err: errors.New("of the server before")})
	r.server.Stop(0)
	r.pass()
	r.apiSays(t, supervise.Running, "")
	if len(s.open) != 1 {
		t.Errorf("%d sockets were opened; want one", len(s.open))
	}
}
