package linux

import (
	"bytes"
	"encoding/binary"
	"testing"

	"machined/hal"
)

// answerPacket is an IP packet of a server at 192.168.7.1 to 192.168.7.100.
func answerPacket(payload string) []byte {
	p := broadcastPacket(v4(192, 168, 7, 1), []byte(payload))
	copy(p[16:20], []byte{192, 168, 7, 100})
	binary.BigEndian.PutUint16(p[10:], 0)
	binary.BigEndian.PutUint16(p[10:], ^onesSum(0, p[:ipHeader]))
	udp := p[ipHeader:]
	binary.BigEndian.PutUint16(udp[0:], dhcpServerPort)
	binary.BigEndian.PutUint16(udp[2:], dhcpClientPort)
	sumUDP(p)
	return p
}

func sumUDP(p []byte) {
	udp := p[ipHeader:]
	binary.BigEndian.PutUint16(udp[6:], 0)
	binary.BigEndian.PutUint16(udp[6:], ^onesSum(pseudoSum(p[12:20], len(udp)), udp))
}

func sumIP(p []byte) {
	header := int(p[0]&15) * 4
	binary.BigEndian.PutUint16(p[10:], 0)
	binary.BigEndian.PutUint16(p[10:], ^onesSum(0, p[:header]))
}

func TestBroadcastPacket(t *testing.T) {
	for _, payload := range []string{"", "x", "even", "odd"} {
		p := broadcastPacket(hal.Address{Len: 4}, []byte(payload))
		udp := p[ipHeader:]
		if onesSum(0, p[:ipHeader]) != 0xffff || onesSum(pseudoSum(p[12:20], len(udp)), udp) != 0xffff {
			t.Errorf("the checksums of a packet with %q are wrong", payload)
		}
		if !bytes.Equal(p[12:20], []byte{0, 0, 0, 0, 255, 255, 255, 255}) || string(udp[8:]) != payload || !bytes.Equal(udp[:4], []byte{0, 68, 0, 67}) {
			t.Errorf("the packet with %q is %x", payload, p)
		}
	}
}

func TestUDPPayload(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p []byte) []byte
		ok     bool
	}{
		{"whole", func(p []byte) []byte { return p }, true},
		{"with the padding of short frames", func(p []byte) []byte { return append(p, 0, 0, 0, 0, 0) }, true},
		{"no checksum", func(p []byte) []byte { p[26], p[27] = 0, 0; return p }, true},
		// What veth and virtio pass on: the sum of the pseudo header alone.
		{"checksum left to the hardware", func(p []byte) []byte {
			binary.BigEndian.PutUint16(p[26:], fold(pseudoSum(p[12:20], len(p)-ipHeader)))
			return p
		}, true},
		{"wrong checksum", func(p []byte) []byte { p[26] ^= 1; return p }, false},
		{"changed message", func(p []byte) []byte { p[30] ^= 1; return p }, false},
		{"wrong checksum of the header", func(p []byte) []byte { p[11] ^= 1; return p }, false},
		{"options of IP", func(p []byte) []byte {
			p = append(p[:ipHeader:ipHeader], append([]byte{1, 1, 1, 0}, p[ipHeader:]...)...)
			p[0] = 0x46
			binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
			sumIP(p)
			return p
		}, true},
		{"cut off", func(p []byte) []byte { return p[:len(p)-1] }, false},
		{"header cut off", func(p []byte) []byte { return p[:19] }, false},
		{"version 6", func(p []byte) []byte { p[0] = 0x65; sumIP(p); return p }, false},
		{"short header length", func(p []byte) []byte { p[0] = 0x44; sumIP(p); return p }, false},
		{"TCP", func(p []byte) []byte { p[9] = 6; sumIP(p); return p }, false},
		{"fragment", func(p []byte) []byte { p[7] = 1; sumIP(p); return p }, false},
		{"first fragment", func(p []byte) []byte { p[6] = 0x20; sumIP(p); return p }, false},
		{"other port", func(p []byte) []byte { p[23] = 69; sumUDP(p); return p }, false},
		{"UDP longer than IP", func(p []byte) []byte { p[25]++; sumUDP(p); return p }, false},
		{"UDP without its header", func(p []byte) []byte { p[25] = 7; return p }, false},
		{"IP without UDP", func(p []byte) []byte { p[3] = 27; sumIP(p); return p }, false},
	} {
		payload, ok := udpPayload(c.change(answerPacket("message")))
		if ok != c.ok || ok && string(payload) != "message" {
			t.Errorf("%s: udpPayload = %q, %v; want %v", c.name, payload, ok, c.ok)
		}
	}
}

func FuzzUDPPayload(f *testing.F) {
	f.Add(answerPacket("message"))
	f.Add(answerPacket(string(reply())))
	f.Fuzz(func(t *testing.T, b []byte) {
		if payload, ok := udpPayload(b); ok && len(payload) > len(b)-ipHeader-udpHeader {
			t.Errorf("a payload of %d bytes in a packet of %d", len(payload), len(b))
		}
	})
}
