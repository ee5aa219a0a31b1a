package linux

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"machined/hal"
)

const (
	dhcpServerPort, dhcpClientPort = 67, 68
	ipHeader, udpHeader            = 20, 8
	// maxDHCPPacket bounds what is read: the client asks for messages of one
	// Ethernet frame, and some servers send larger ones on jumbo links.
	maxDHCPPacket = 4096
	bootReply     = 2
)

// dhcpFilter returns the program by which the kernel drops, before anybody
// wakes, what is no reply for this hardware address. Offsets count from the IP
// header: the socket has no headers of the link layer.
func dhcpFilter(link uint32, mac [6]byte) ([]bpf.RawInstruction, error) {
	// "Unless" means: drop, unless.
	type check struct {
		load bpf.Instruction
		test bpf.JumpTest
		val  uint32
	}
	inUDP := func(offset uint32, size int) bpf.Instruction {
		return bpf.LoadIndirect{Off: offset, Size: size}
	}
	const message = udpHeader
	checks := []check{
		// Packets of VLANs on this link pass its sockets, too.
		{bpf.LoadExtension{Num: bpf.ExtInterfaceIndex}, bpf.JumpEqual, link},
		{bpf.LoadExtension{Num: bpf.ExtVLANTagPresent}, bpf.JumpEqual, 0},
		{bpf.LoadExtension{Num: bpf.ExtType}, bpf.JumpNotEqual, unix.PACKET_OTHERHOST},
		{bpf.LoadAbsolute{Off: 9, Size: 1}, bpf.JumpEqual, unix.IPPROTO_UDP},
		{bpf.LoadAbsolute{Off: 6, Size: 2}, bpf.JumpBitsNotSet, 0x3fff}, // no fragment
		{inUDP(2, 2), bpf.JumpEqual, dhcpClientPort},
		{inUDP(message, 1), bpf.JumpEqual, bootReply},
		{inUDP(message+28, 4), bpf.JumpEqual, binary.BigEndian.Uint32(mac[:4])},
		{inUDP(message+32, 2), bpf.JumpEqual, uint32(binary.BigEndian.Uint16(mac[4:]))},
	}
	program := []bpf.Instruction{bpf.LoadMemShift{Off: 0}} // X: length of the IP header
	for i, c := range checks {
		toEnd := uint8(2 * (len(checks) - i - 1))
		program = append(program, c.load, bpf.JumpIf{Cond: c.test, Val: c.val, SkipFalse: toEnd + 1})
	}
	program = append(program, bpf.RetConstant{Val: maxDHCPPacket}, bpf.RetConstant{Val: 0})
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assemble the DHCP filter: %w", err)
	}
	return raw, nil
}

// broadcastPacket puts headers of IP (RFC 791) and UDP (RFC 768) before a
// message to all servers on the link.
func broadcastPacket(source hal.Address, message []byte) []byte {
	p := make([]byte, ipHeader+udpHeader, ipHeader+udpHeader+len(message))
	p = append(p, message...)
	p[0] = 4<<4 | ipHeader/4
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	p[8], p[9] = 64, unix.IPPROTO_UDP // hops
	copy(p[12:16], source.Bytes[:4])
	copy(p[16:20], []byte{255, 255, 255, 255})
	binary.BigEndian.PutUint16(p[10:], ^onesSum(0, p[:ipHeader]))

	udp := p[ipHeader:]
	binary.BigEndian.PutUint16(udp[0:], dhcpClientPort)
	binary.BigEndian.PutUint16(udp[2:], dhcpServerPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	sum := ^onesSum(pseudoSum(p[12:20], len(udp)), udp)
	if sum == 0 {
		sum = 0xffff // 0 says that there is none
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
	return p
}

// udpPayload returns the message of an IP packet to the client's port, if its
// lengths and checksums are right. What follows the packet is padding of the
// link layer.
func udpPayload(p []byte) ([]byte, bool) {
	if len(p) < ipHeader || p[0]>>4 != 4 {
		return nil, false
	}
	header, total := int(p[0]&15)*4, int(binary.BigEndian.Uint16(p[2:]))
	switch {
	case header < ipHeader || total < header+udpHeader || total > len(p),
		p[9] != unix.IPPROTO_UDP,
		binary.BigEndian.Uint16(p[6:])&0x3fff != 0, // a fragment
		onesSum(0, p[:header]) != 0xffff:
		return nil, false
	}
	udp := p[header:total]
	length := int(binary.BigEndian.Uint16(udp[4:]))
	if length < udpHeader || length > len(udp) || binary.BigEndian.Uint16(udp[2:]) != dhcpClientPort {
		return nil, false
	}
	udp = udp[:length]
	return udp[udpHeader:], udpSumRight(p[12:20], udp)
}

// udpSumRight checks the checksum of a UDP packet; addresses are the two of its
// IP header. On virtual links (veth, virtio) the sender leaves the sum to a
// device that is not there, with that of the pseudo header in its place. Both
// that and none at all are fine.
func udpSumRight(addresses, udp []byte) bool {
	pseudo := pseudoSum(addresses, len(udp))
	switch given := binary.BigEndian.Uint16(udp[6:]); given {
	case 0, fold(pseudo):
		return true
	}
	return onesSum(pseudo, udp) == 0xffff
}

func pseudoSum(addresses []byte, length int) uint32 {
	return uint32(onesSum(unix.IPPROTO_UDP+uint32(length), addresses))
}

// onesSum adds up words as in RFC 1071.
func onesSum(sum uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return fold(sum)
}

func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// dhcpUnicast is a UDP socket for messages to one server, by which the kernel
// resolves and routes. Nothing is read from it, since what comes is seen by
// the packet socket; that it is there keeps the kernel from answering "port
// unreachable".
type dhcpUnicast struct {
	fd   int // -1 for none
	link uint32
	err  error // why there is none
}

func openDHCPUnicast(link uint32) dhcpUnicast {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return dhcpUnicast{fd: -1, err: os.NewSyscallError("socket", err)}
	}
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"attach a filter to port", func() error {
			return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing})
		}},
		{"share port", func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }},
		{"bind to the link of port", func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, int(link)) }},
		{"bind to port", func() error { return unix.Bind(fd, &unix.SockaddrInet4{Port: dhcpClientPort}) }},
	} {
		if err := step.do(); err != nil {
			_ = unix.Close(fd)
			return dhcpUnicast{fd: -1, err: fmt.Errorf("%s %d: %w", step.name, dhcpClientPort, err)}
		}
	}
	return dhcpUnicast{fd: fd, link: link}
}

func (u *dhcpUnicast) send(message []byte, from, to hal.Address) error {
	if u.fd < 0 {
		return fmt.Errorf("get a UDP socket for one server: %w", u.err)
	}
	if from.Len != 4 || to.Len != 4 {
		return fmt.Errorf("%w: a message to one server needs the IPv4 addresses of both ends", hal.ErrInvalid)
	}
	source := unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(u.link), Spec_dst: [4]byte(from.Bytes[:4])})
	server := &unix.SockaddrInet4{Port: dhcpServerPort, Addr: [4]byte(to.Bytes[:4])}
	_, err := unix.SendmsgN(u.fd, message, source, server, unix.MSG_DONTWAIT)
	return os.NewSyscallError("sendmsg", err)
}

func (u *dhcpUnicast) close() {
	if u.fd >= 0 {
		_ = unix.Close(u.fd)
		u.fd = -1
	}
}
