package hal

// DHCPType is the type of a DHCPv4 message (RFC 2132, option 53).
type DHCPType uint8

const (
	DHCPDiscover DHCPType = iota + 1
	DHCPOffer
	DHCPRequest
	DHCPDecline
	DHCPAck
	DHCPNak
	DHCPRelease
)

// DHCPRoute is a route of option 121, or the one that option 3 amounts to. A
// gateway with Len 0 says that the network is on the link itself.
type DHCPRoute struct {
	Destination Prefix
	Gateway     Address
}

// DHCPMessage is a DHCPv4 message (RFC 2131) as far as a client cares. Absent
// addresses have Len 0, absent numbers are 0.
type DHCPMessage struct {
	Type        DHCPType
	Transaction uint32
	// ClientAddress is ciaddr: set by a client that can answer ARP for it.
	ClientAddress Address
	// Seconds since the client began.
	Seconds uint16

	// What a client sends.

	Requested  Address // option 50
	Hostname   string  // option 12; in a reply the name that the server gives
	ClientID   []byte  // option 61
	Broadcast  bool    // ask for replies by broadcast
	MaxSize    uint16  // option 57, bytes
	Parameters []byte  // option 55: numbers of the options that are wanted

	// What a server answers.

	Address Prefix  // yiaddr with the mask of option 1
	Server  Address // option 54; a client's request repeats it
	// Lease, Renew and Rebind are options 51, 58 and 59, in seconds.
	Lease, Renew, Rebind uint32
	// Routes are those of option 121, or, without it, one by the first router
	// of option 3 (RFC 3442).
	Routes      []DHCPRoute
	Nameservers []Address // option 6
	TimeServers []Address // option 42
	Search      []string  // option 119, or else the domain of option 15
	MTU         uint32    // option 26, bytes
	Text        string    // option 56: why a server refuses
}

// DHCPClient exchanges DHCPv4 messages on links that may have no address yet.
type DHCPClient interface {
	// Open starts to listen on a link; on one that is open it does nothing.
	// ErrNoDevice when the link is gone.
	Open(link uint32) error
	// Close ends it. A link that is not open is no error.
	Close(link uint32)
	// Send sends a message on a link that is open. With server absent it is
	// broadcast, from m.ClientAddress or else from 0.0.0.0; otherwise it is sent
	// from m.ClientAddress, which the link must have, to the server.
	Send(link uint32, m *DHCPMessage, server Address) error
	// Receive returns the next message that came for the link's hardware
	// address, or nil. It never waits. Messages that are no offer,
	// acknowledgement or refusal were dropped, as were those that give no
	// address of a host with a netmask; what else makes no sense in a message
	// was left out. Of many that wait, the oldest are lost.
	Receive(link uint32) *DHCPMessage
	// Received returns the number of messages so far, on all links.
	Received() uint64
}
