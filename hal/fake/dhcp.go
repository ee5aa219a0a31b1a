package fake

import "machined/hal"

// DHCP is a simulated hal.DHCPClient on a network of simulated servers. What is
// sent arrives when Step finds it due on the clock.
type DHCP struct {
	Faults
	// Links, when set, are those that messages go by: a link that is down,
	// without carrier or gone loses them. Otherwise every link is there.
	Links *Links
	// Sent is all that was sent, in order.
	Sent []SentDHCP

	clock    *Clock
	servers  []*DHCPServer
	open     []dhcpPort
	flying   []flying
	received uint64
}

// SentDHCP is a message that a client sent, with the time since boot in
// nanoseconds.
type SentDHCP struct {
	At      int64
	Link    uint32
	Server  hal.Address // Len 0 for a broadcast
	Message hal.DHCPMessage
}

type dhcpPort struct {
	link  uint32
	queue []*hal.DHCPMessage
}

// flying is an answer on its way.
type flying struct {
	due     int64
	link    uint32
	message hal.DHCPMessage
}

// dhcpQueue is how many messages wait for Receive at most.
const dhcpQueue = 16

// NewDHCP returns a client without servers.
func NewDHCP(clock *Clock) *DHCP { return &DHCP{clock: clock} }

// Join puts a server on the network.
func (d *DHCP) Join(s *DHCPServer) { d.servers = append(d.servers, s) }

// Leave takes a server off the network.
func (d *DHCP) Leave(s *DHCPServer) {
	kept := d.servers[:0]
	for _, other := range d.servers {
		if other != s {
			kept = append(kept, other)
		}
	}
	d.servers = kept
}

// Open implements hal.DHCPClient.
func (d *DHCP) Open(link uint32) error {
	if err := d.failing("Open"); err != nil {
		return err
	}
	if d.port(link) != nil {
		return nil
	}
	if d.Links != nil && d.Links.find(link) == nil {
		return hal.ErrNoDevice
	}
	d.open = append(d.open, dhcpPort{link: link})
	return nil
}

// Close implements hal.DHCPClient.
func (d *DHCP) Close(link uint32) {
	kept := d.open[:0]
	for _, other := range d.open {
		if other.link != link {
			kept = append(kept, other)
		}
	}
	d.open = kept
}

// Send implements hal.DHCPClient.
func (d *DHCP) Send(link uint32, m *hal.DHCPMessage, server hal.Address) error {
	if err := d.failing("Send"); err != nil {
		return err
	}
	if d.port(link) == nil {
		return hal.ErrInvalid
	}
	if err := d.sendable(link, m, server); err != nil {
		return err
	}
	d.Sent = append(d.Sent, SentDHCP{At: d.clock.SinceBoot(), Link: link, Server: server, Message: *m})
	if !d.carries(link) {
		return nil
	}
	for _, s := range d.servers {
		if s.Link != 0 && s.Link != link || server.Len != 0 && server != s.Address {
			continue
		}
		for _, answer := range s.hear(d.clock.SinceBoot(), m) {
			answer.link = link
			d.flying = append(d.flying, answer)
		}
	}
	return nil
}

// sendable says why the kernel would refuse to send.
func (d *DHCP) sendable(link uint32, m *hal.DHCPMessage, server hal.Address) error {
	if server.Len != 0 && m.ClientAddress.Len == 0 {
		return hal.ErrInvalid
	}
	if d.Links == nil {
		return nil
	}
	found := d.Links.find(link)
	switch {
	case found == nil:
		return hal.ErrNoDevice
	case !found.Up:
		return ErrDown
	case server.Len != 0 && !found.has(m.ClientAddress):
		return hal.ErrInvalid
	case server.Len != 0 && !found.reaches(server) && !d.Links.routed(link, server):
		return ErrUnreachable
	}
	return nil
}

func (d *DHCP) carries(link uint32) bool {
	if d.Links == nil {
		return true
	}
	found := d.Links.find(link)
	return found != nil && found.Up && found.Carrier
}

// Step delivers the answers that are due, those that are due first before the
// others.
func (d *DHCP) Step() {
	for {
		next := -1
		for i := range d.flying {
			if d.flying[i].due <= d.clock.SinceBoot() && (next < 0 || d.flying[i].due < d.flying[next].due) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		f := d.flying[next]
		d.flying = append(d.flying[:next], d.flying[next+1:]...)
		d.deliver(f)
	}
}

// Due returns when the next answer arrives, in nanoseconds since boot, and
// false when none does.
func (d *DHCP) Due() (int64, bool) {
	if len(d.flying) == 0 {
		return 0, false
	}
	due := d.flying[0].due
	for _, f := range d.flying {
		due = min(due, f.due)
	}
	return due, true
}

func (d *DHCP) deliver(f flying) {
	p := d.port(f.link)
	if p == nil || !d.carries(f.link) {
		return
	}
	if len(p.queue) == dhcpQueue {
		p.queue = p.queue[1:]
	}
	p.queue = append(p.queue, &f.message)
	d.received++
}

// Receive implements hal.DHCPClient.
func (d *DHCP) Receive(link uint32) *hal.DHCPMessage {
	p := d.port(link)
	if p == nil || len(p.queue) == 0 {
		return nil
	}
	m := p.queue[0]
	p.queue = p.queue[1:]
	return m
}

// Received implements hal.DHCPClient.
func (d *DHCP) Received() uint64 { return d.received }

// Listening reports whether a link is open.
func (d *DHCP) Listening(link uint32) bool { return d.port(link) != nil }

func (d *DHCP) port(link uint32) *dhcpPort {
	for i := range d.open {
		if d.open[i].link == link {
			return &d.open[i]
		}
	}
	return nil
}

var _ hal.DHCPClient = (*DHCP)(nil)
