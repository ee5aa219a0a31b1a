package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"machined/api"
	"machined/init/supervise"
	"machined/reconcile/resource"
)

const (
	// servePause is the pause before the API listens again after a failure, doubled
	// with each in a row up to servePauseMax.
	servePause, servePauseMax = time.Second, time.Minute
	// servesWell is how long it listens until a failure is the first in a row.
	servesWell = time.Minute
)

// serving is how the API's listening goes.
type serving struct {
	ended atomic.Pointer[servingEnd] // set beside the loop
	since int64                      // it was tried last, nanoseconds since boot
	due   int64                      // when it is tried again, 0 for not
	pause time.Duration              // before the try after that
}

// servingEnd is the end of a server that nobody has stopped.
type servingEnd struct {
	of  *api.Server
	err error
}

// startAPI listens before the network is up: the address is any, so whatever
// link comes first is served.
func (n *node) startAPI() error {
	n.apiStatus = resource.ServiceStatus{ServiceID: "api", State: supervise.Failed.String()}
	if n.identity == nil && (n.boot.Resident || !n.state.settled) {
		n.apiStatus.State, n.apiStatus.Message = supervise.Waiting.String(), "the identity is made with STATE"
		return nil
	}
	if n.identity == nil && n.boot.Netbooted {
		n.apiStatus.State, n.apiStatus.Message = supervise.Waiting.String(), "the identity comes from the netboot server"
		return nil
	}
	if n.identity == nil {
		n.apiStatus.Message = "no identity; see the console"
		return errors.New("the API stays off: the node has no identity")
	}
	n.server = api.NewServer(n.served(), n.identity.settings(), func(what string) { n.log.Printf("api", "%s", what) })
	inherited := n.boot.ListenerFD >= 0
	if err := n.serve(n.clock.SinceBoot()); err != nil {
		return fmt.Errorf("start the API: %w", err)
	}
	if !inherited {
		n.log.Printf("api", "Listening on port %d as %s.", api.Port, n.hostname())
	}
	return nil
}

// serve listens, and has the server answer beside the loop.
func (n *node) serve(now int64) error {
	n.serving.since, n.serving.due = now, 0
	l, err := n.listen()
	if err != nil {
		n.serveLater(now, err)
		return err
	}
	server := n.server
	n.listener = l
	n.apiStatus.State, n.apiStatus.Healthy = supervise.Running.String(), true
	n.apiStatus.Message = fmt.Sprintf("listening on port %d", api.Port)
	n.publishServices() // the first call sees itself served
	n.spawn("api", func() {
		if err := server.Serve(l); err != nil {
			n.serving.ended.Store(&servingEnd{of: server, err: err})
			n.kick()
		}
	})
	return nil
}

// serveLater says why the API is not there, and when it is tried again. The server
// stays, and with it the connections that are open.
func (n *node) serveLater(now int64, why error) {
	s := &n.serving
	if s.pause == 0 || now-s.since >= int64(servesWell) {
		s.pause = servePause
	}
	s.due = now + int64(s.pause)
	n.listener = nil
	n.apiStatus.State, n.apiStatus.Healthy = supervise.Failed.String(), false
	n.apiStatus.Message = fmt.Sprintf("%v; listening again after %s", why, s.pause)
	s.pause = min(2*s.pause, servePauseMax)
}

// followAPI listens again after a failure: a node that nobody reaches cannot be
// repaired from afar. It returns when it is to be called again, in nanoseconds
// since boot.
func (n *node) followAPI(now int64) int64 {
	s := &n.serving
	// The end of a server that was stopped, and replaced, is none to mend.
	if e := s.ended.Swap(nil); e != nil && e.of == n.server {
		n.serveLater(now, e.err)
	}
	if s.due != 0 && now >= s.due && n.server != nil {
		_ = n.serve(now) // the status says why not
	}
	if s.due == 0 || n.server == nil {
		return now + int64(idlePass)
	}
	return s.due
}

// listen takes over the socket of the resident start, once, so that no client is
// refused meanwhile, or opens one.
func (n *node) listen() (net.Listener, error) {
	if n.boot.ListenerFD < 0 {
		return n.listenAPI()
	}
	f := os.NewFile(uintptr(n.boot.ListenerFD), "api")
	defer f.Close()
	n.boot.ListenerFD = -1 // its number is soon that of another file
	return net.FileListener(f)
}

// listenAPI opens the API's port on all addresses.
func listenAPI() (net.Listener, error) { return net.Listen("tcp", fmt.Sprintf(":%d", api.Port)) }
