package network

import (
	"time"

	"machined/hal"
)

// leaseState is a state of RFC 2131, figure 5.
type leaseState uint8

const (
	initial   leaseState = iota
	rebooting            // INIT-REBOOT's request is under way
	selecting
	requesting
	bound
	renewing
	rebinding
)

func (s leaseState) String() string {
	return [...]string{"INIT", "REBOOTING", "SELECTING", "REQUESTING", "BOUND", "RENEWING", "REBINDING"}[s]
}

const (
	// The pause before an unanswered message is sent again, doubled each time.
	// RFC 2131 has it begin with 4 s; a port that has just got its carrier may
	// lose what is sent at once, and the node waits for its address.
	resendMin = time.Second
	resendMax = 64 * time.Second
	// renewPause is the least pause between requests to extend a lease (RFC
	// 2131, 4.4.5).
	renewPause = time.Minute
	// leaseMin and renewMin keep a server with leases, or a T1, of seconds from
	// making a storm.
	leaseMin, renewMin = 20 * time.Second, 5 * time.Second
	// A request that is unanswered so often is given up.
	requestTries, rebootTries = 4, 2
	// nakMin and nakMax bound the wait after a refusal, doubled each time.
	nakMin, nakMax = time.Second, time.Minute
	// openPause is the wait before a link is tried again that cannot be
	// listened to.
	openPause = 5 * time.Second
)

// lease is the client of one link.
type lease struct {
	dhcp    *DHCP
	name    string
	index   uint32
	mac     [6]byte
	carrier bool // the link is up and has one
	random  uint64

	state       leaseState
	deadline    time.Duration // of the next step that is due by itself
	transaction uint32
	begun       time.Duration // of the present attempt to get a lease
	sent        time.Duration // of the last request
	tries       int
	naks        int // refusals since the last lease
	trouble     string

	// offered is what was chosen in selecting.
	offered hal.DHCPMessage
	// held says that granted may be used, until expireAt.
	held                        bool
	granted                     hal.DHCPMessage
	grantedAt                   time.Duration
	renewAt, rebindAt, expireAt time.Duration
	// last is the address to ask for again, absent when none is known. With
	// verify it is asked for without looking for a server (INIT-REBOOT).
	last   hal.Address
	verify bool

	keeping keeping
}

// see notes the carrier. One that comes back may be another network's: the
// address is asked for again.
func (l *lease) see(now time.Duration, carrier bool) {
	if carrier && !l.carrier {
		l.verify = true
		l.restart(now)
	}
	l.carrier = carrier
}

// restart begins anew at a time.
func (l *lease) restart(at time.Duration) {
	l.state, l.deadline, l.tries = initial, at, 0
}

// step takes what has arrived and does what is due.
func (l *lease) step(now time.Duration) error {
	if l.held && now >= l.expireAt {
		l.drop("the lease of " + l.granted.Address.String() + " has expired")
		l.verify = false
		l.restart(now)
	}
	if !l.carrier {
		// Nobody hears. What is held stays until it expires.
		l.deadline = forever
		if l.held {
			l.deadline = l.expireAt
		}
		return nil
	}
	if err := l.dhcp.Client.Open(l.index); err != nil {
		l.trouble, l.deadline = err.Error(), now+openPause
		return err
	}
	for m := l.dhcp.Client.Receive(l.index); m != nil; m = l.dhcp.Client.Receive(l.index) {
		l.take(now, m)
	}
	if now < l.deadline {
		return nil
	}
	return l.due(now)
}

// due does what the state's deadline asks for.
func (l *lease) due(now time.Duration) error {
	switch l.state {
	case initial:
		l.begun, l.tries, l.transaction = now, 0, uint32(l.next())
		l.state = selecting
		if l.verify && l.last.Len != 0 {
			l.state = rebooting
		}
	case selecting:
		if l.tries >= 3 {
			l.trouble = "no DHCP server answers"
		}
	case requesting:
		if l.tries >= requestTries {
			l.trouble = "the DHCP server does not answer a request for what it offered"
			l.restart(now + nakMin)
			return nil
		}
	case rebooting:
		if l.tries >= rebootTries {
			return l.unverified(now)
		}
	case bound, renewing, rebinding:
		return l.extend(now)
	}
	return l.send(now)
}

// unverified goes on when nobody knows of the last address. A lease that holds
// may be used for the rest of its time (RFC 2131, 3.2).
func (l *lease) unverified(now time.Duration) error {
	l.verify = false
	if l.held {
		l.trouble = "no DHCP server answers"
		l.settle(now)
		return nil
	}
	l.restart(now)
	return l.due(now)
}

// extend asks for more time: the server that granted the lease from T1 on, any
// server from T2 on.
func (l *lease) extend(now time.Duration) error {
	if l.state == bound {
		l.transaction, l.begun = uint32(l.next()), now
	}
	l.state = renewing
	end := l.rebindAt
	if now >= l.rebindAt {
		l.state, end = rebinding, l.expireAt
		l.trouble = "no DHCP server extends the lease of " + l.granted.Address.String()
	}
	err := l.send(now)
	l.deadline = min(now+max((end-now)/2, renewPause), end)
	return err
}

// settle waits for T1, or goes on where the times of the lease are.
func (l *lease) settle(now time.Duration) {
	l.state, l.tries = bound, 0
	l.deadline = max(l.renewAt, now)
}

// send sends the message of the state and plans to send it again.
func (l *lease) send(now time.Duration) error {
	m := hal.DHCPMessage{
		Type: hal.DHCPRequest, Transaction: l.transaction, Seconds: uint16(min((now-l.begun)/time.Second, 1<<16-1)),
		Hostname: l.dhcp.Hostname(), MaxSize: 1500,
		// RFC 2132, 9.14: the hardware type and address, as firmware sends it.
		ClientID:   append([]byte{1}, l.mac[:]...),
		Parameters: []byte{1, 3, 6, 12, 15, 26, 28, 42, 51, 54, 58, 59, 119, 121},
	}
	var server hal.Address
	switch l.state {
	case selecting:
		m.Type = hal.DHCPDiscover
		m.Requested = l.last
	case requesting:
		m.Requested, m.Server = l.offered.Address.Address, l.offered.Server
	case rebooting:
		m.Requested = l.last
	case renewing:
		m.ClientAddress, server = l.granted.Address.Address, l.granted.Server
	case rebinding:
		m.ClientAddress = l.granted.Address.Address
	}
	pause := min(resendMin<<min(l.tries, 6), resendMax)
	l.tries++
	l.deadline = now + pause + time.Duration(l.next()%uint64(time.Second))
	l.sent = now
	return l.dhcp.Client.Send(l.index, &m, server)
}

// take handles a message of a server.
func (l *lease) take(now time.Duration, m *hal.DHCPMessage) {
	if m.Transaction != l.transaction || l.transaction == 0 {
		return
	}
	switch {
	case m.Type == hal.DHCPOffer && l.state == selecting && usable(m) && m.Server.Len != 0:
		l.offered, l.state, l.tries = *m, requesting, 0
		l.deadline = now
	case m.Type == hal.DHCPAck && l.asked() && usable(m):
		l.grant(m)
		l.settle(now)
		l.save()
	case m.Type == hal.DHCPNak && l.asked() && (l.state != requesting || m.Server == l.offered.Server):
		l.refused(now, m)
	}
}

// refused gives up what a server says is not ours.
func (l *lease) refused(now time.Duration, m *hal.DHCPMessage) {
	why := "the DHCP server " + m.Server.String() + " refuses"
	if m.Text != "" {
		why += ": " + m.Text
	}
	l.drop(why)
	l.last, l.verify = hal.Address{}, false
	l.forget()
	l.restart(now + min(nakMin<<min(l.naks, 6), nakMax))
	l.naks++
}

// asked reports whether a request is under way.
func (l *lease) asked() bool {
	return l.state == requesting || l.state == rebooting || l.state == renewing || l.state == rebinding
}

// usable reports whether a server's message grants an address that a host can
// have.
func usable(m *hal.DHCPMessage) bool {
	a := m.Address.Address
	return a.Len == 4 && a.Bytes[0] != 0 && a.Bytes[0] != 127 && a.Bytes[0] < 224 && m.Address.Bits > 0 && m.Address.Bits <= 32
}

// grant takes the lease of an acknowledgement. Its times count from the
// request (RFC 2131, 4.4.1).
func (l *lease) grant(m *hal.DHCPMessage) {
	server := l.granted.Server
	if l.state == requesting {
		server = l.offered.Server
	}
	l.granted, l.held, l.trouble, l.naks = *m, true, "", 0
	if m.Server.Len == 0 { // a server must say, and some do not
		l.granted.Server = server
	}
	l.last, l.verify = m.Address.Address, false
	l.times(l.sent)
	l.keeping.want(m.Address)
}

// times sets when the lease is to be extended and when it ends. What makes no
// sense, T1 after T2 or both after the end, is as if it were not said.
func (l *lease) times(from time.Duration) {
	length := max(seconds(l.granted.Lease), leaseMin)
	if l.granted.Lease == 0 {
		length = time.Hour // a server must name one
	}
	renew, rebind := seconds(l.granted.Renew), seconds(l.granted.Rebind)
	if rebind <= renewMin || rebind >= length {
		rebind = length / 8 * 7
	}
	if renew == 0 || renew >= rebind {
		renew = min(length/2, rebind/8*7)
	}
	l.grantedAt = from
	l.renewAt, l.rebindAt, l.expireAt = from+max(renew, renewMin), from+rebind, from+length
}

// drop gives the lease up.
func (l *lease) drop(why string) {
	l.held, l.granted, l.trouble = false, hal.DHCPMessage{}, why
}

// giveUp gives a lease back that is no longer wanted.
func (l *lease) giveUp() {
	if l.held && l.carrier {
		// It is a courtesy: a server that does not hear it loses nothing.
		_ = l.dhcp.Client.Send(l.index, &hal.DHCPMessage{
			Type: hal.DHCPRelease, Transaction: uint32(l.next()), ClientAddress: l.granted.Address.Address,
			Server: l.granted.Server, ClientID: append([]byte{1}, l.mac[:]...),
		}, l.granted.Server)
	}
	l.forget()
	l.keeping.start(l)
	l.dhcp.Client.Close(l.index)
}

// next is xorshift64 (Marsaglia, 2003).
func (l *lease) next() uint64 {
	l.random ^= l.random << 13
	l.random ^= l.random >> 7
	l.random ^= l.random << 17
	return max(l.random, 1)
}
