package linux

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"machined/hal"
)

// DHCP is the real hal.DHCPClient: a packet socket and a goroutine for each
// link that is open. Its methods belong to one goroutine, but for Received.
type DHCP struct {
	links    map[uint32]*dhcpLink
	received atomic.Uint64
	arrived  func()
}

// NewDHCP returns a client with no link open. arrived, which may be nil, is
// called after each message that came, on a goroutine of its own; it must not
// wait.
func NewDHCP(arrived func()) *DHCP {
	if arrived == nil {
		arrived = func() {}
	}
	return &DHCP{links: make(map[uint32]*dhcpLink), arrived: arrived}
}

// dhcpQueue is how many messages wait for Receive at most. Older ones go
// first: they answer what was asked before.
const dhcpQueue = 16

// dhcpLink is a link that is open.
type dhcpLink struct {
	index   uint32
	mac     [6]byte
	packets *packet.Conn
	unicast dhcpUnicast
	dead    atomic.Bool // nobody reads any more

	lock  sync.Mutex
	queue []*hal.DHCPMessage
}

// Open implements hal.DHCPClient.
func (d *DHCP) Open(link uint32) error {
	if open := d.links[link]; open != nil {
		if !open.dead.Load() {
			return nil
		}
		d.Close(link)
	}
	l, err := openDHCP(link)
	if err != nil {
		return fmt.Errorf("listen to DHCP on link %d: %w", link, err)
	}
	d.links[link] = l
	go func() {
		l.read(func() {
			d.received.Add(1)
			d.arrived()
		})
		l.dead.Store(true)
	}()
	return nil
}

func openDHCP(link uint32) (*dhcpLink, error) {
	device, err := net.InterfaceByIndex(int(link))
	if err != nil {
		// The package has no error value of its own for it, and nothing else
		// goes wrong there.
		return nil, fmt.Errorf("%w (%w)", hal.ErrNoDevice, err)
	}
	l := &dhcpLink{index: link}
	if len(device.HardwareAddr) != len(l.mac) {
		return nil, fmt.Errorf("%w: %s has no Ethernet address", hal.ErrInvalid, device.Name)
	}
	copy(l.mac[:], device.HardwareAddr)
	filter, err := dhcpFilter(link, l.mac)
	if err != nil {
		return nil, err
	}
	// Without headers of the link layer: the kernel writes them.
	l.packets, err = packet.Listen(device, packet.Datagram, unix.ETH_P_IP, &packet.Config{Filter: filter})
	if err != nil {
		return nil, dhcpError(err)
	}
	// Without it a server's unicast to an address that is on the link already
	// would be answered by "port unreachable", and a renewal could not be sent.
	// The rest works without, so that its error is one of sending.
	l.unicast = openDHCPUnicast(link)
	return l, nil
}

// read takes in messages until the socket is closed.
func (l *dhcpLink) read(arrived func()) {
	buffer := make([]byte, maxDHCPPacket)
	for {
		n, _, err := l.packets.ReadFrom(buffer)
		if errors.Is(err, unix.ENETDOWN) {
			// Said once each time that the link is lowered. The socket works on
			// when it is raised again.
			continue
		}
		if err != nil {
			return
		}
		payload, ok := udpPayload(buffer[:n])
		if !ok {
			continue
		}
		if m := decodeDHCP(payload, l.mac); m != nil {
			l.put(m)
			arrived()
		}
	}
}

func (l *dhcpLink) put(m *hal.DHCPMessage) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if len(l.queue) == dhcpQueue {
		l.queue = append(l.queue[:0], l.queue[1:]...)
	}
	l.queue = append(l.queue, m)
}

// Close implements hal.DHCPClient.
func (d *DHCP) Close(link uint32) {
	if l := d.links[link]; l != nil {
		_ = l.packets.Close()
		l.unicast.close()
		delete(d.links, link)
	}
}

// Send implements hal.DHCPClient.
func (d *DHCP) Send(link uint32, m *hal.DHCPMessage, server hal.Address) error {
	l := d.links[link]
	if l == nil {
		return fmt.Errorf("send a DHCP message on link %d: %w: open it first", link, hal.ErrInvalid)
	}
	var err error
	payload := encodeDHCP(m, l.mac)
	if server.Len != 0 {
		err = l.unicast.send(payload, m.ClientAddress, server)
	} else {
		source := hal.Address{Len: 4}
		if m.ClientAddress.Len == 4 {
			// Rebinding (RFC 2131, 4.3.6): from the address that is in use.
			source = m.ClientAddress
		}
		everybody := &packet.Addr{HardwareAddr: net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
		_, err = l.packets.WriteTo(broadcastPacket(source, payload), everybody)
	}
	if err != nil {
		return fmt.Errorf("send a DHCP message on link %d: %w", link, dhcpError(err))
	}
	return nil
}

// Receive implements hal.DHCPClient.
func (d *DHCP) Receive(link uint32) *hal.DHCPMessage {
	l := d.links[link]
	if l == nil {
		return nil
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	m := l.queue[0]
	l.queue = append(l.queue[:0], l.queue[1:]...)
	return m
}

// Received implements hal.DHCPClient.
func (d *DHCP) Received() uint64 { return d.received.Load() }

// dhcpError gives a link that went away the name that package hal has for it.
func dhcpError(err error) error {
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("%w (%w)", hal.ErrNoDevice, err)
	}
	return err
}

var _ hal.DHCPClient = (*DHCP)(nil)
