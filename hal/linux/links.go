package linux

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"machined/hal"
)

// Links is the real hal.Links. It is not safe for use by several goroutines
// at once.
type Links struct {
	// Physical tells whether a link of Ethernet framing is a piece of hardware
	// with a cable. Only such a link counts as wired: bridges, tunnels and the
	// virtual links of containers are somebody else's. Tests have others.
	Physical func(name string) bool

	conn    *rtnetlink.Conn
	changes atomic.Uint64
}

// NewLinks opens a route netlink socket.
func NewLinks() (*Links, error) {
	conn, err := rtnetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("open a route netlink socket: %w", err)
	}
	// The kernel then lists the addresses of one link alone. One that cannot
	// lists them all.
	_ = conn.SetOption(netlink.GetStrictCheck, true)
	return &Links{Physical: isPhysical, conn: conn}, nil
}

// Close closes the socket.
func (l *Links) Close() error { return l.conn.Close() }

// List implements hal.Links.
func (l *Links) List() ([]hal.Link, error) {
	messages, err := l.conn.Link.List()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	links := make([]hal.Link, 0, len(messages))
	for _, m := range messages {
		link := hal.Link{
			Index: m.Index, Name: m.Attributes.Name, MTU: m.Attributes.MTU,
			Up:       m.Flags&unix.IFF_UP != 0,
			Carrier:  m.Flags&unix.IFF_LOWER_UP != 0,
			Loopback: m.Flags&unix.IFF_LOOPBACK != 0,
		}
		copy(link.MAC[:], m.Attributes.Address)
		link.Wired = m.Type == unix.ARPHRD_ETHER && l.Physical(link.Name)
		links = append(links, link)
	}
	// Kernels before 6.10 list by hash bucket.
	slices.SortFunc(links, func(a, b hal.Link) int { return cmp.Compare(a.Index, b.Index) })
	return links, nil
}

// isPhysical looks at the kernel's marks in sysfs: what has a driver has a
// device (virtio, USB and PCI alike), and what is wireless has a phy80211.
func isPhysical(name string) bool {
	dir := filepath.Join("/sys/class/net", filepath.Base(name))
	_, device := os.Stat(filepath.Join(dir, "device"))
	_, wireless := os.Stat(filepath.Join(dir, "phy80211"))
	return device == nil && errors.Is(wireless, fs.ErrNotExist)
}

// SetUp implements hal.Links.
func (l *Links) SetUp(index uint32, up bool) error {
	var flags uint32
	if up {
		flags = unix.IFF_UP
	}
	err := l.conn.Link.Set(&rtnetlink.LinkMessage{Index: index, Flags: flags, Change: unix.IFF_UP})
	return linkError("set up or down", index, err)
}

// SetMTU implements hal.Links.
func (l *Links) SetMTU(index, mtu uint32) error {
	if mtu == 0 {
		// A message without an MTU would change nothing, and succeed.
		return linkError("set MTU 0", index, unix.EINVAL)
	}
	err := l.conn.Link.Set(&rtnetlink.LinkMessage{Index: index, Attributes: &rtnetlink.LinkAttributes{MTU: mtu}})
	return linkError(fmt.Sprintf("set MTU %d", mtu), index, err)
}

// AddAddress implements hal.Links.
func (l *Links) AddAddress(index uint32, p hal.Prefix) error {
	if p.Address.Len == 0 {
		return linkError("add an empty address", index, unix.EINVAL)
	}
	err := l.conn.Address.New(addressMessage(index, p))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return linkError("add address "+p.String(), index, err)
}

// RemoveAddress implements hal.Links.
func (l *Links) RemoveAddress(index uint32, p hal.Prefix) error {
	err := l.conn.Address.Delete(addressMessage(index, p))
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return linkError("remove address "+p.String(), index, err)
}

func addressMessage(index uint32, p hal.Prefix) *rtnetlink.AddressMessage {
	ip := net.IP(p.Address.Bytes[:p.Address.Len])
	m := &rtnetlink.AddressMessage{
		Family: family(p.Address), PrefixLength: p.Bits, Index: index,
		Attributes: &rtnetlink.AddressAttributes{Address: ip, Local: ip},
	}
	if p.Address.Len == 4 && p.Bits < 31 {
		m.Attributes.Broadcast = broadcast(p)
	}
	return m
}

func broadcast(p hal.Prefix) net.IP {
	ip := make(net.IP, 4)
	mask := net.CIDRMask(int(p.Bits), 32)
	for i := range ip {
		ip[i] = p.Address.Bytes[i] | ^mask[i]
	}
	return ip
}

// Addresses implements hal.Links.
func (l *Links) Addresses(index uint32) ([]hal.Prefix, error) {
	messages, err := l.conn.Execute(&rtnetlink.AddressMessage{Index: index}, unix.RTM_GETADDR, netlink.Request|netlink.Dump)
	if errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list addresses of link %d: %w", index, err)
	}
	var prefixes []hal.Prefix
	for _, message := range messages {
		m, ok := message.(*rtnetlink.AddressMessage)
		if !ok || m.Index != index || m.Attributes == nil {
			continue
		}
		// On a point-to-point link Address is the peer's and Local is ours.
		ip := m.Attributes.Local
		if ip == nil {
			ip = m.Attributes.Address
		}
		prefixes = append(prefixes, hal.Prefix{Address: addressOf(ip), Bits: m.PrefixLength})
	}
	return prefixes, nil
}

func linkError(what string, index uint32, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENODEV):
		err = hal.ErrNoDevice
	case errors.Is(err, unix.EEXIST):
		err = hal.ErrExists
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		err = fmt.Errorf("%w (%w)", hal.ErrInvalid, err)
	}
	return fmt.Errorf("%s on link %d: %w", what, index, err)
}

var _ hal.Links = (*Links)(nil)

// Changes implements hal.Links. It moves while Watch runs.
func (l *Links) Changes() uint64 { return l.changes.Load() }

// Watch counts the changes of links, addresses and routes and calls changed
// after each, until the socket fails. It may run beside the other methods.
func (l *Links) Watch(changed func()) error {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{
		Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_ROUTE,
	})
	if err != nil {
		return fmt.Errorf("listen to link changes: %w", err)
	}
	defer conn.Close()
	for {
		// What came before is not lost: a first look is due anyway.
		l.changes.Add(1)
		changed()
		_, err := conn.Receive()
		// The kernel drops messages that come faster than they are read; a
		// caller looks at the whole state anyway.
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("listen to link changes: %w", err)
		}
	}
}
