package main

import (
	"time"

	"machined/hal"
	"machined/hal/fake"
)

const (
	errFault hal.Error = "input/output error"
	errDead  hal.Error = "the power is off"
)

// burst makes calls of a driver fail for a while.
type burst struct {
	driver  string // "" for all
	percent int
	until   time.Duration
}

// enter is the start of each call of a driver by the node.
func (w *world) enter(driver string) error {
	if w.dead {
		return errDead
	}
	if w.cutAfter > 0 {
		if w.cutAfter--; w.cutAfter == 0 {
			w.dead = true
			w.counts.cuts++
			w.note("the power goes in a call of %s", driver)
			return errDead
		}
	}
	for _, b := range w.faults {
		if (b.driver == "" || b.driver == driver) && w.now() < b.until && w.chance(b.percent) {
			w.counts.faults++
			return errFault
		}
	}
	return nil
}

// breaking reports whether calls of a driver fail now.
func (w *world) breaking(driver string) bool {
	for _, b := range w.faults {
		if (b.driver == "" || b.driver == driver) && w.now() < b.until {
			return true
		}
	}
	return false
}

// links are what the node sees of hal.Links.
type links struct {
	*fake.Links
	w *world
}

func (l links) List() ([]hal.Link, error) {
	if err := l.w.enter("links"); err != nil {
		return nil, err
	}
	all, err := l.Links.List()
	if l.w.sabotage == shakeLinks && len(all) > 1 {
		l.Links.SetCarrier(all[1].Index, !all[1].Carrier)
	}
	return all, err
}

func (l links) Addresses(index uint32) ([]hal.Prefix, error) {
	if err := l.w.enter("links"); err != nil {
		return nil, err
	}
	return l.Links.Addresses(index)
}

func (l links) Routes() ([]hal.Route, error) {
	if err := l.w.enter("links"); err != nil {
		return nil, err
	}
	return l.Links.Routes()
}

func (l links) SetUp(index uint32, up bool) error {
	if err := l.w.enter("links"); err != nil {
		return err
	}
	err := l.Links.SetUp(index, up)
	l.w.note("SetUp(%d, %v) = %v", index, up, err)
	l.w.afterLink()
	return err
}

func (l links) SetMTU(index, mtu uint32) error {
	if err := l.w.enter("links"); err != nil {
		return err
	}
	return l.Links.SetMTU(index, mtu)
}

func (l links) AddAddress(index uint32, p hal.Prefix) error {
	if err := l.w.enter("links"); err != nil {
		return err
	}
	err := l.Links.AddAddress(index, p)
	l.w.note("AddAddress(%d, %v) = %v", index, p, err)
	return err
}

func (l links) RemoveAddress(index uint32, p hal.Prefix) error {
	if err := l.w.enter("links"); err != nil {
		return err
	}
	if l.w.sabotage == forgetAddresses {
		return nil
	}
	if n := l.w.nicOf(index); l.w.sabotage == removeForeign && n != nil && len(n.addresses) > 0 {
		p = n.addresses[0]
	}
	l.w.mayRemoveAddress(index, p)
	err := l.Links.RemoveAddress(index, p)
	l.w.note("RemoveAddress(%d, %v) = %v", index, p, err)
	l.w.afterLink()
	return err
}

func (l links) AddRoute(r hal.Route) error {
	if err := l.w.enter("links"); err != nil {
		return err
	}
	return l.Links.AddRoute(r)
}

func (l links) RemoveRoute(r hal.Route) error {
	if err := l.w.enter("links"); err != nil {
		return err
	}
	l.w.mayRemoveRoute(r)
	l.w.note("RemoveRoute(%d %v %v %d)", r.Link, r.Destination, r.Gateway, r.Metric)
	return l.Links.RemoveRoute(r)
}

// host is what the node sees of hal.Host.
type host struct {
	*fake.Host
	w *world
}

func (h host) Hostname() (string, error) {
	if err := h.w.enter("host"); err != nil {
		return "", err
	}
	return h.Host.Hostname()
}

func (h host) SetHostname(name string) error {
	if err := h.w.enter("host"); err != nil {
		return err
	}
	return h.Host.SetHostname(name)
}

func (h host) Sysctl(key string) (string, error) {
	if err := h.w.enter("host"); err != nil {
		return "", err
	}
	return h.Host.Sysctl(key)
}

func (h host) SetSysctl(key, value string) error {
	if err := h.w.enter("host"); err != nil {
		return err
	}
	return h.Host.SetSysctl(key, value)
}

// dhcp is what the node sees of hal.DHCPClient.
type dhcp struct {
	*fake.DHCP
	w *world
}

func (d dhcp) Open(link uint32) error {
	if err := d.w.enter("dhcp"); err != nil {
		return err
	}
	return d.DHCP.Open(link)
}

func (d dhcp) Send(link uint32, m *hal.DHCPMessage, server hal.Address) error {
	if err := d.w.enter("dhcp"); err != nil {
		return err
	}
	return d.DHCP.Send(link, m, server)
}

func (d dhcp) Receive(link uint32) *hal.DHCPMessage {
	if d.w.dead {
		return nil
	}
	m := d.DHCP.Receive(link)
	if m != nil && m.Type == hal.DHCPNak {
		d.w.counts.naks++
	}
	return m
}

// ntp is what the node sees of hal.NTP.
type ntp struct {
	*fake.NTP
	w *world
}

func (n ntp) Query(server string) (hal.TimeSample, error) {
	if err := n.w.enter("ntp"); err != nil {
		return hal.TimeSample{}, err
	}
	return n.NTP.Query(server)
}

// clock is what the node sees of hal.Clock.
type clock struct {
	*fake.Clock
	w *world
}

func (c clock) Set(unixNanos int64) error {
	if err := c.w.enter("clock"); err != nil {
		return err
	}
	if c.w.sabotage == setBack {
		unixNanos = built - 1
	}
	if unixNanos < built {
		c.w.fail("floor", "the clock is set to %v, before the program was built", time.Unix(0, unixNanos).UTC())
	}
	c.w.ledger.lowered = false
	c.w.note("the clock is set by %v", time.Duration(unixNanos-c.Now()))
	return c.Clock.Set(unixNanos)
}

func (c clock) Slew(nanos int64) error {
	if err := c.w.enter("clock"); err != nil {
		return err
	}
	return c.Clock.Slew(nanos)
}

// files are what the node sees of hal.Files.
type files struct {
	*fake.Files
	w *world
}

func (f files) Read(path string) ([]byte, error) {
	if err := f.w.enter("files"); err != nil {
		return nil, err
	}
	return f.Files.Read(f.at(path))
}

func (f files) Replace(path string, data []byte, public bool) error {
	if err := f.w.enter("files"); err != nil {
		return err
	}
	return f.Files.Replace(f.at(path), data, public)
}

func (f files) Remove(path string) error {
	if err := f.w.enter("files"); err != nil {
		return err
	}
	return f.Files.Remove(f.at(path))
}

// at returns where a file is. The marker is on the volume of the runtime.
func (f files) at(path string) string {
	if path == markerPath {
		return f.w.marker()
	}
	return path
}
