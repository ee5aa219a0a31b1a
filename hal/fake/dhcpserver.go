package fake

import "machined/hal"

// DHCPServer is a simulated DHCPv4 server (RFC 2131, section 4.3).
type DHCPServer struct {
	// Address is the server's; Link the one that it is on, 0 for every link.
	Address hal.Address
	Link    uint32
	// First is the first address of its pool, with the bits of the netmask;
	// Size is the number of addresses.
	First hal.Prefix
	Size  int
	// Options is what its answers have beside the address: times, routes, names.
	Options hal.DHCPMessage
	// Authoritative has it refuse requests that it knows nothing of.
	Authoritative bool

	// Its faults.

	Silent    bool  // it hears nothing
	Deaf      int   // the number of messages that it misses next
	Delay     int64 // of each answer, nanoseconds
	Refuses   bool  // each request
	Duplicate bool  // each answer comes twice
	Garbage   bool  // each answer comes after some that make no sense
	Disorder  bool  // answers overtake each other

	bindings []binding
	answers  int64
}

// binding is an address and who has it.
type binding struct {
	client  string
	address hal.Address
	granted bool  // not just offered
	expires int64 // nanoseconds since boot
}

// Bound returns the number of leases that hold at a time since boot.
func (s *DHCPServer) Bound(now int64) int {
	n := 0
	for _, b := range s.bindings {
		if b.granted && now < b.expires {
			n++
		}
	}
	return n
}

// Forget makes the server lose its leases, as one does whose memory is all it has.
func (s *DHCPServer) Forget() { s.bindings = nil }

// hear takes a message and returns the answers.
func (s *DHCPServer) hear(now int64, m *hal.DHCPMessage) []flying {
	if s.Silent {
		return nil
	}
	if s.Deaf > 0 {
		s.Deaf--
		return nil
	}
	answer, ok := s.answer(now, m)
	if !ok {
		return nil
	}
	answer.Transaction, answer.ClientAddress, answer.Server = m.Transaction, m.ClientAddress, s.Address
	var all []hal.DHCPMessage
	if s.Garbage {
		all = garbage(answer)
	}
	all = append(all, answer)
	if s.Duplicate {
		all = append(all, answer)
	}
	var out []flying
	for i, a := range all {
		due := now + s.Delay
		if s.Disorder {
			// The first of an answer's messages comes last, and each second
			// answer late.
			due += int64(len(all)-i)*1e6 + s.answers%2*3e9
		}
		out = append(out, flying{due: due, message: a})
	}
	s.answers++
	return out
}

// garbage returns messages like the answer, each with something wrong.
func garbage(answer hal.DHCPMessage) []hal.DHCPMessage {
	foreign, empty, multicast, anonymous := answer, answer, answer, answer
	foreign.Transaction ^= 1
	foreign.Address.Address.Bytes[3] ^= 0x55
	empty.Address = hal.Prefix{}
	multicast.Address.Address.Bytes[0] = 224
	anonymous.Type, anonymous.Server = hal.DHCPOffer, hal.Address{}
	return []hal.DHCPMessage{foreign, empty, multicast, anonymous, {Type: hal.DHCPNak}, {Type: 99, Transaction: answer.Transaction}}
}

func (s *DHCPServer) answer(now int64, m *hal.DHCPMessage) (answer hal.DHCPMessage, ok bool) {
	client := string(m.ClientID)
	switch m.Type {
	case hal.DHCPDiscover:
		return s.offer(now, client, m.Requested)
	case hal.DHCPRequest:
		return s.request(now, client, m)
	case hal.DHCPRelease, hal.DHCPDecline:
		if b := s.binding(client); b != nil {
			b.granted, b.expires = false, now
		}
	}
	return answer, false
}

func (s *DHCPServer) offer(now int64, client string, wish hal.Address) (hal.DHCPMessage, bool) {
	b := s.binding(client)
	if b == nil || !s.inPool(b.address) {
		address, ok := s.free(now, wish)
		if !ok {
			return hal.DHCPMessage{}, false
		}
		s.drop(client)
		s.bindings = append(s.bindings, binding{client: client, address: address})
		b = &s.bindings[len(s.bindings)-1]
	}
	b.expires = max(b.expires, now+60e9)
	answer := s.Options
	answer.Type, answer.Address = hal.DHCPOffer, hal.Prefix{Address: b.address, Bits: s.First.Bits}
	return answer, true
}

// request grants or refuses what is asked for.
func (s *DHCPServer) request(now int64, client string, m *hal.DHCPMessage) (hal.DHCPMessage, bool) {
	asked := m.Requested
	if asked.Len == 0 {
		asked = m.ClientAddress
	}
	b := s.binding(client)
	if m.Server.Len != 0 && m.Server != s.Address {
		if b != nil && !b.granted {
			s.drop(client) // another server's offer was taken
		}
		return hal.DHCPMessage{}, false
	}
	if s.Refuses {
		return hal.DHCPMessage{Type: hal.DHCPNak, Text: "refused"}, true
	}
	if b == nil && s.inPool(asked) && m.Server.Len == 0 && !s.Authoritative {
		return hal.DHCPMessage{}, false // RFC 2131, 4.3.2: it has no record, and says nothing
	}
	if b == nil || b.address != asked || !s.inPool(asked) {
		return hal.DHCPMessage{Type: hal.DHCPNak, Text: "wrong address"}, true
	}
	b.granted, b.expires = true, now+int64(s.Options.Lease)*1e9
	answer := s.Options
	answer.Type, answer.Address = hal.DHCPAck, hal.Prefix{Address: asked, Bits: s.First.Bits}
	return answer, true
}

func (s *DHCPServer) binding(client string) *binding {
	for i := range s.bindings {
		if s.bindings[i].client == client {
			return &s.bindings[i]
		}
	}
	return nil
}

func (s *DHCPServer) drop(client string) {
	kept := s.bindings[:0]
	for _, b := range s.bindings {
		if b.client != client {
			kept = append(kept, b)
		}
	}
	s.bindings = kept
}

// free returns an address that nobody has: the wish, if it is one.
func (s *DHCPServer) free(now int64, wish hal.Address) (hal.Address, bool) {
	if s.inPool(wish) && !s.taken(now, wish) {
		return wish, true
	}
	for i := range s.Size {
		if a := s.nth(i); !s.taken(now, a) {
			return a, true
		}
	}
	return hal.Address{}, false
}

func (s *DHCPServer) taken(now int64, a hal.Address) bool {
	for _, b := range s.bindings {
		if b.address == a && now < b.expires {
			return true
		}
	}
	return false
}

func (s *DHCPServer) inPool(a hal.Address) bool {
	for i := range s.Size {
		if s.nth(i) == a {
			return true
		}
	}
	return false
}

// nth returns an address of the pool, which lies in one /24.
func (s *DHCPServer) nth(i int) hal.Address {
	a := s.First.Address
	a.Bytes[3] += byte(i)
	return a
}
