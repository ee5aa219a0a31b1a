package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/ipv4"

	"machined/tools/netboot/iface"
)

// Listener has the sockets of a server.
type Listener struct {
	s     *Server
	ifi   *net.Interface
	ports []port
}

type port struct {
	number uint16
	conn   *ipv4.PacketConn
}

// taken is what to do about a port that another server has.
const taken = "another DHCP or PXE server runs on this machine (dnsmasq, libvirt, systemd-networkd): stop it there"

// Listen opens ports 67 and 4011 on the server's interface alone.
func (s *Server) Listen() (*Listener, error) {
	ifi, err := net.InterfaceByName(s.c.Interface)
	if err != nil {
		return nil, fmt.Errorf("serve DHCP on %s: %w", s.c.Interface, err)
	}
	l := &Listener{s: s, ifi: ifi}
	if local := l.addresses(); !slices.Contains(local, s.c.ServerIP) {
		return nil, fmt.Errorf("serve DHCP on %s: it does not have the server's address %v, but %v; give it that one or name another", ifi.Name, s.c.ServerIP, local)
	}
	for _, n := range []uint16{serverPort, pxePort} {
		c, err := listen(ifi.Name, n)
		if err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("open port %d on %s: %w%s", n, ifi.Name, err, iface.Remedy(err, taken))
		}
		l.ports = append(l.ports, port{n, c})
	}
	return l, nil
}

func listen(ifname string, n uint16) (*ipv4.PacketConn, error) {
	c, err := iface.Listen(ifname).ListenPacket(context.Background(), "udp4", fmt.Sprintf("0.0.0.0:%d", n))
	if err != nil {
		return nil, err
	}
	p := ipv4.NewPacketConn(c)
	if err := p.SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("have the kernel tell where packets went: %w", err)
	}
	return p, nil
}

// Serve is Listen and Listener.Serve at once.
func (s *Server) Serve(ctx context.Context) error {
	l, err := s.Listen()
	if err != nil {
		return err
	}
	return l.Serve(ctx)
}

// addresses are the interface's at this moment.
func (l *Listener) addresses() []netip.Addr {
	var all []netip.Addr
	list, _ := l.ifi.Addrs()
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP.To4()); ok {
				all = append(all, ip)
			}
		}
	}
	return all
}

// Close closes the sockets; Serve ends.
func (l *Listener) Close() error {
	var err error
	for _, p := range l.ports {
		err = errors.Join(err, p.conn.Close())
	}
	return err
}

// Serve answers packets until the context ends, which is no error, and closes the
// sockets.
func (l *Listener) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	failures := make([]error, len(l.ports))
	var wg sync.WaitGroup
	for i, p := range l.ports {
		wg.Go(func() {
			defer cancel() // one without the other would be half a server
			if err := l.loop(p); ctx.Err() == nil {
				failures[i] = fmt.Errorf("read packets of port %d on %s: %w", p.number, l.ifi.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// loop answers what comes to one port.
func (l *Listener) loop(p port) error {
	buf := make([]byte, 64<<10)
	for {
		n, cm, from, err := p.conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		u, ok := from.(*net.UDPAddr)
		// Systems that cannot bind to an interface have packets of all here.
		if !ok || cm != nil && cm.IfIndex != l.ifi.Index {
			continue
		}
		r := Request{Data: buf[:n], Port: p.number, From: netip.AddrPortFrom(u.AddrPort().Addr().Unmap(), u.AddrPort().Port())}
		if cm != nil {
			if to, ok := netip.AddrFromSlice(cm.Dst.To4()); ok && slices.Contains(l.addresses(), to) {
				r.To = to
			}
		}
		reply, ok := l.s.Answer(r)
		if !ok {
			continue
		}
		l.send(p, reply)
		for _, after := range reply.Again {
			// At the end the socket is closed, and what is left fails: let it.
			time.AfterFunc(after, func() { _ = l.write(p, reply) })
		}
	}
}

func (l *Listener) send(p port, r Reply) {
	if err := l.write(p, r); err != nil {
		l.s.mu.Lock() // events come one at a time
		defer l.s.mu.Unlock()
		l.s.c.OnEvent(Event{Time: l.s.c.Now(), Kind: Failed, Port: p.number, Err: fmt.Errorf("send an answer to %v by %s: %w", r.To, l.ifi.Name, err)})
	}
}

func (l *Listener) write(p port, r Reply) error {
	cm := &ipv4.ControlMessage{IfIndex: l.ifi.Index, Src: net.IP(r.From.AsSlice())}
	_, err := p.conn.WriteTo(r.Data, cm, net.UDPAddrFromAddrPort(r.To))
	return err
}
