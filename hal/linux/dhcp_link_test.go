package linux

import (
	"net"
	"testing"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/tools/testenv"
)

// dhcpRig is a client on one end of a cable, with the other in our hands.
type dhcpRig struct {
	t       *testing.T
	client  *DHCP
	link    uint32
	arrived chan struct{}
	far     *packet.Conn
	before  uint64 // messages until settle
}

func newDHCPRig(t *testing.T) *dhcpRig {
	t.Helper()
	testenv.NeedRoot(t)
	r := &dhcpRig{t: t, arrived: make(chan struct{}, 1000)}
	conn, links := dialRoute(t), newLinks(t)
	r.link = addVeth(t, conn)
	if err := links.SetUp(r.link, true); err != nil {
		t.Fatal(err)
	}
	r.client = NewDHCP(func() { r.arrived <- struct{}{} })
	if err := r.client.Open(r.link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.client.Close(r.link) })
	far, err := net.InterfaceByIndex(r.farEnd(conn))
	if err != nil {
		t.Fatal(err)
	}
	if r.far, err = packet.Listen(far, packet.Datagram, unix.ETH_P_IP, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.far.Close() })
	r.settle()
	return r
}

// settle sends until a message arrives: a link that has just been raised loses
// packets without a word, until the kernel has followed its carrier. Then it
// takes back what that has left.
func (r *dhcpRig) settle() {
	r.t.Helper()
	arrived := false
	for deadline := time.Now().Add(10 * time.Second); !arrived; {
		if time.Now().After(deadline) {
			r.t.Fatal("no message arrives in 10 s")
		}
		r.send(r.own(255))
		select {
		case <-r.arrived:
			arrived = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	time.Sleep(100 * time.Millisecond) // for what was late
	for len(r.arrived) > 0 {
		<-r.arrived
	}
	for r.client.Receive(r.link) != nil {
	}
	if _, err := r.client.links[r.link].packets.Stats(); err != nil { // which also begins anew
		r.t.Fatal(err)
	}
	r.before = r.client.Received()
}

func (r *dhcpRig) farEnd(conn *rtnetlink.Conn) int {
	r.t.Helper()
	m, err := conn.Link.Get(r.link)
	if err != nil {
		r.t.Fatal(err)
	}
	return int(m.Attributes.Type) // IFLA_LINK: the other end
}

// send has the other end send packets to everybody.
func (r *dhcpRig) send(packets ...[]byte) {
	r.t.Helper()
	for _, p := range packets {
		if _, err := r.far.WriteTo(p, &packet.Addr{HardwareAddr: net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// own is a reply to the client of the link, with a transaction.
func (r *dhcpRig) own(transaction byte) []byte {
	b := reply()
	mac := r.client.links[r.link].mac
	copy(b[28:], mac[:])
	b[7] = transaction
	return answerPacket(string(b))
}

func (r *dhcpRig) wait() {
	r.t.Helper()
	select {
	case <-r.arrived:
	case <-time.After(10 * time.Second):
		r.t.Fatal("no message arrives in 10 s")
	}
}

// TestDHCPFilter: what is not for us wakes nobody. The kernel counts the packets
// that pass the filter.
func TestDHCPFilter(t *testing.T) {
	r := newDHCPRig(t)
	foreign := answerPacket(string(reply()))
	request := answerPacket(string(patched(0, 1)))
	port := answerPacket(string(reply()))
	port[ipHeader+3] = 69
	sumUDP(port)
	fragment := r.own(1)
	fragment[7] = 1
	sumIP(fragment)
	tcp := r.own(1)
	tcp[9] = unix.IPPROTO_TCP
	sumIP(tcp)
	for range 20 {
		r.send(foreign, request, port, fragment, tcp, []byte{0x45}, answerPacket("short"))
	}
	r.send(r.own(9))
	r.wait()
	stats, err := r.client.links[r.link].packets.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if stats.Packets != 1 {
		t.Errorf("%d packets passed the filter; want the one that was for us", stats.Packets)
	}
	if m := r.client.Receive(r.link); m == nil || m.Transaction&0xff != 9 || r.client.Received()-r.before != 1 {
		t.Errorf("Receive() = %+v, Received() = %d; want the message for us", m, r.client.Received())
	}
}

// TestDHCPFlood: whoever sends more than is taken costs what the queue costs.
func TestDHCPFlood(t *testing.T) {
	r := newDHCPRig(t)
	for i := range byte(100) {
		r.send(r.own(i))
		r.wait()
	}
	var first, n uint32
	for m := r.client.Receive(r.link); m != nil; m = r.client.Receive(r.link) {
		if n++; n == 1 {
			first = m.Transaction & 0xff
		}
	}
	if n != dhcpQueue || first != 100-dhcpQueue {
		t.Errorf("%d messages wait, the first is number %d; want the last %d", n, first, dhcpQueue)
	}
}

// TestDHCPOnALoweredLink: the socket survives a link that goes down and up.
func TestDHCPOnALoweredLink(t *testing.T) {
	r := newDHCPRig(t)
	links := newLinks(t)
	for range 3 {
		for _, up := range []bool{false, true} {
			if err := links.SetUp(r.link, up); err != nil {
				t.Fatal(err)
			}
			if err := r.client.Open(r.link); err != nil {
				t.Fatal(err)
			}
		}
		r.settle()
	}
	if err := r.client.Send(r.link, &hal.DHCPMessage{Type: hal.DHCPDiscover}, hal.Address{}); err != nil {
		t.Errorf("Send on a link that was lowered and raised = %v", err)
	}
}

// TestDHCPOnALinkThatGoes: neither does the reader go round and round, nor does
// closing hang.
func TestDHCPOnALinkThatGoes(t *testing.T) {
	r := newDHCPRig(t)
	if err := dialRoute(t).Link.Delete(r.link); err != nil {
		t.Fatal(err)
	}
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		t.Fatal(err)
	}
	if used := time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()); used > 200*time.Millisecond {
		t.Errorf("%v of processor time in 300 ms on a link that is gone; want next to none", used)
	}
	err := r.client.Send(r.link, &hal.DHCPMessage{Type: hal.DHCPDiscover}, hal.Address{})
	if err == nil {
		t.Error("Send on a link that is gone succeeds; want an error")
	}
	r.client.Close(r.link)
	if err := r.client.Open(r.link); err == nil {
		t.Error("Open of a link that is gone succeeds; want an error")
	}
}
