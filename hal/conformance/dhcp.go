package conformance

import (
	"testing"

	"machined/hal"
)

// DHCPRig is a client on a link with a server, which is authoritative and has a
// free address.
type DHCPRig struct {
	Client hal.DHCPClient
	// Link is up and has a carrier. Absent is no link's index.
	Link, Absent uint32
	// Pass lets some time pass, in which answers arrive.
	Pass func()
	// Use gives the link an address.
	Use func(hal.Prefix)
	// ClientID is to be used in the messages.
	ClientID []byte
}

// DHCP checks a driver.
func DHCP(t *testing.T, newRig func(t *testing.T) DHCPRig) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, DHCPRig)
	}{
		{"open and close", dhcpOpen}, {"a lease", dhcpLease}, {"a refusal", dhcpRefusal}, {"closed link hears nothing", dhcpClosed},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newRig(t)) })
	}
}

func dhcpOpen(t *testing.T, r DHCPRig) {
	expect(t, "Open of an absent link", r.Client.Open(r.Absent), hal.ErrNoDevice)
	r.Client.Close(r.Absent)
	if m := r.Client.Receive(r.Link); m != nil {
		t.Errorf("Receive of a closed link = %+v; want nothing", m)
	}
	if err := r.Client.Send(r.Link, r.discover(1), hal.Address{}); err == nil {
		t.Error("Send on a closed link succeeds; want an error")
	}
	for range 2 {
		expect(t, "Open", r.Client.Open(r.Link), nil)
	}
	if m := r.Client.Receive(r.Link); m != nil {
		t.Errorf("Receive of a quiet link = %+v; want nothing", m)
	}
	for range 2 {
		r.Client.Close(r.Link)
	}
	expect(t, "Open again", r.Client.Open(r.Link), nil)
	r.Client.Close(r.Link)
}

func (r *DHCPRig) discover(transaction uint32) *hal.DHCPMessage {
	return &hal.DHCPMessage{
		Type: hal.DHCPDiscover, Transaction: transaction, ClientID: r.ClientID, MaxSize: 1500,
		Parameters: []byte{1, 3, 6, 12, 15, 26, 42, 51, 54, 58, 59, 119, 121},
	}
}

// answer sends a message until it is answered, and returns the first answer of
// its transaction.
func (r *DHCPRig) answer(t *testing.T, m *hal.DHCPMessage, server hal.Address) *hal.DHCPMessage {
	t.Helper()
	for try := range 100 {
		if try%20 == 0 {
			must(t, "Send", r.Client.Send(r.Link, m, server))
		}
		before := r.Client.Received()
		r.Pass()
		for got := r.Client.Receive(r.Link); got != nil; got = r.Client.Receive(r.Link) {
			if r.Client.Received() == 0 {
				t.Errorf("Received() = 0 with a message; it was %d before", before)
			}
			if got.Transaction == m.Transaction {
				return got
			}
		}
	}
	t.Fatalf("no answer to %+v", m)
	return nil
}

func dhcpLease(t *testing.T, r DHCPRig) {
	must(t, "Open", r.Client.Open(r.Link))
	defer r.Client.Close(r.Link)
	offer := r.answer(t, r.discover(0x1001), hal.Address{})
	if offer.Type != hal.DHCPOffer || offer.Address.Address.Len != 4 || offer.Address.Bits == 0 || offer.Server.Len != 4 {
		t.Fatalf("the answer to a search is %+v; want an offer with address and server", offer)
	}
	request := r.discover(0x1002)
	request.Type, request.Requested, request.Server = hal.DHCPRequest, offer.Address.Address, offer.Server
	ack := r.answer(t, request, hal.Address{})
	if ack.Type != hal.DHCPAck || ack.Address != offer.Address || ack.Lease == 0 || len(ack.Routes) == 0 || len(ack.Nameservers) == 0 {
		t.Fatalf("the answer to a request is %+v; want what was offered, with a time, routes and name servers", ack)
	}
	r.Use(ack.Address)
	for name, server := range map[string]hal.Address{"renewal": ack.Server, "rebinding": {}} {
		extend := r.discover(0x1003)
		extend.Type, extend.ClientAddress = hal.DHCPRequest, ack.Address.Address
		extend.Transaction += uint32(server.Len)
		if got := r.answer(t, extend, server); got.Type != hal.DHCPAck || got.Address != ack.Address {
			t.Errorf("the answer to a %s is %+v; want the same address", name, got)
		}
	}
	if err := r.Client.Send(r.Link, r.discover(0x1004), ack.Server); err == nil {
		t.Error("Send to one server from no address succeeds; want an error")
	}
	release := &hal.DHCPMessage{
		Type: hal.DHCPRelease, Transaction: 0x1005, ClientID: r.ClientID, ClientAddress: ack.Address.Address, Server: ack.Server,
	}
	expect(t, "Send of a release", r.Client.Send(r.Link, release, ack.Server), nil)
}

func dhcpRefusal(t *testing.T, r DHCPRig) {
	must(t, "Open", r.Client.Open(r.Link))
	defer r.Client.Close(r.Link)
	request := r.discover(0x2001)
	request.Type, request.Requested = hal.DHCPRequest, v4(10, 250, 250, 250, 32).Address
	if got := r.answer(t, request, hal.Address{}); got.Type != hal.DHCPNak || got.Address.Address.Len != 0 {
		t.Errorf("the answer to a request for an address of elsewhere is %+v; want a refusal", got)
	}
}

func dhcpClosed(t *testing.T, r DHCPRig) {
	must(t, "Open", r.Client.Open(r.Link))
	must(t, "Send", r.Client.Send(r.Link, r.discover(0x3001), hal.Address{}))
	r.Client.Close(r.Link)
	for range 5 {
		r.Pass()
	}
	if m := r.Client.Receive(r.Link); m != nil {
		t.Errorf("Receive of a closed link = %+v; want nothing", m)
	}
	must(t, "Open again", r.Client.Open(r.Link))
	defer r.Client.Close(r.Link)
	if m := r.Client.Receive(r.Link); m != nil && m.Transaction == 0x3001 && m.Type != hal.DHCPOffer {
		t.Errorf("Receive of a link that was opened again = %+v", m)
	}
}
