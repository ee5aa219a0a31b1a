package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Mode is what part a server has on its network.
type Mode string

// The modes.
const (
	// Full gives out addresses, as the only server of its network.
	Full Mode = "full"
	// Proxy tells boards what to load, beside a server that gives out addresses.
	Proxy Mode = "proxy"
)

// Static is a board's address that is always the same.
type Static struct {
	MAC      MAC
	Address  netip.Addr
	Hostname string // option 12; empty has none sent
}

// Config is what a server is to do.
type Config struct {
	Interface string     // the one that it serves
	ServerIP  netip.Addr // this machine's there
	Mode      Mode

	// The rest up to Statics is for Full alone.
	Subnet    netip.Prefix // mask of the addresses
	PoolFirst netip.Addr   // both of them belong to the pool
	PoolLast  netip.Addr
	Router    netip.Addr // none where it is the zero value
	DNS       []netip.Addr
	LeaseTime time.Duration // 0 is one hour; at least a minute
	LeaseFile string        // where leases outlast this program; empty keeps them in memory
	Statics   []Static

	Boot Boot // nil offers nothing
	// Exists returns an error for a target that cannot be served; nil takes all of
	// them. New asks it for each of Boot.Targets.
	Exists func(Target) error
	// LoopLimit is how often in a minute a client may begin the same stage; 10.
	LoopLimit int
	// OnEvent is told each step, one at a time and in order. It must not block or
	// call the server.
	OnEvent func(Event)
	// Now is the clock; time.Now where nil.
	Now func() time.Time
}

// maxPool bounds the search for a free address.
const maxPool = 1 << 16

// check returns one error with all that is wrong.
func (c *Config) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Interface == "" {
		fault("no interface is named: say which one the boards are at")
	}
	if !c.ServerIP.Is4() {
		fault("the server's address %v is no IPv4 address", c.ServerIP)
	}
	switch c.Mode {
	case Full:
		c.checkPool(fault)
		c.checkStatics(fault)
	case Proxy:
		if c.PoolFirst.IsValid() || len(c.Statics) > 0 || c.LeaseFile != "" {
			fault("a pool, static leases or a lease file are set, and a proxy gives out no addresses: use mode %s or leave them out", Full)
		}
	default:
		fault("the mode %q is none of %s and %s", c.Mode, Full, Proxy)
	}
	if c.LoopLimit < 0 {
		fault("the loop limit %d is negative", c.LoopLimit)
	}
	if c.Boot != nil && c.Exists != nil {
		for _, t := range c.Boot.Targets() {
			if err := c.Exists(t); err != nil {
				fault("boards are offered %s, which cannot be served: %w", t, err)
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("the settings of the DHCP server: %w", err)
	}
	return nil
}

func (c *Config) checkPool(fault func(string, ...any)) {
	if !c.Subnet.IsValid() || !c.Subnet.Addr().Is4() || c.Subnet.Bits() > 30 {
		fault("the subnet %v is none of IPv4 with room for boards, as in 10.0.0.0/24", c.Subnet)
		return
	}
	fixed := []struct {
		name string
		netip.Addr
	}{{"server", c.ServerIP}, {"router", c.Router}}
	for _, a := range fixed {
		if a.IsValid() && !c.usable(a.Addr) {
			fault("the %s's address %v is not usable in %v", a.name, a.Addr, c.Subnet.Masked())
		}
	}
	switch {
	case !c.usable(c.PoolFirst) || !c.usable(c.PoolLast):
		fault("the pool %v to %v is not in %v without its first and last address", c.PoolFirst, c.PoolLast, c.Subnet.Masked())
	case c.PoolLast.Less(c.PoolFirst):
		fault("the pool ends at %v, before it begins at %v", c.PoolLast, c.PoolFirst)
	case number(c.PoolLast)-number(c.PoolFirst) >= maxPool:
		fault("the pool %v to %v is of more than %d addresses", c.PoolFirst, c.PoolLast, maxPool)
	default:
		for _, a := range fixed {
			if a.IsValid() && c.inPool(a.Addr) {
				fault("the %s's address %v is in the pool %v to %v", a.name, a.Addr, c.PoolFirst, c.PoolLast)
			}
		}
	}
	for _, d := range c.DNS {
		if !d.Is4() {
			fault("the name server %v is no IPv4 address", d)
		}
	}
	if c.LeaseTime != 0 && c.LeaseTime < time.Minute {
		fault("the lease time %v is below a minute", c.LeaseTime)
	}
}

func (c *Config) checkStatics(fault func(string, ...any)) {
	macs, addresses := map[MAC]netip.Addr{}, map[netip.Addr]MAC{}
	for _, s := range c.Statics {
		if !c.usable(s.Address) {
			fault("the static lease %v of %v is not usable in %v", s.Address, s.MAC, c.Subnet.Masked())
		}
		if s.Address == c.ServerIP || s.Address == c.Router {
			fault("the static lease %v of %v is the server's or the router's address", s.Address, s.MAC)
		}
		if other, twice := macs[s.MAC]; twice {
			fault("%v has two static leases, %v and %v", s.MAC, other, s.Address)
		}
		if other, twice := addresses[s.Address]; twice {
			fault("the static lease %v is of two boards, %v and %v", s.Address, other, s.MAC)
		}
		macs[s.MAC], addresses[s.Address] = s.Address, s.MAC
	}
}

// usable is true for what a machine can have in the subnet.
func (c *Config) usable(a netip.Addr) bool {
	if !c.Subnet.IsValid() || !c.Subnet.Contains(a) {
		return false
	}
	host := number(a) & (1<<(32-c.Subnet.Bits()) - 1)
	return host != 0 && host != 1<<(32-c.Subnet.Bits())-1
}

func (c *Config) inPool(a netip.Addr) bool {
	return c.PoolFirst.IsValid() && a.Is4() && !a.Less(c.PoolFirst) && !c.PoolLast.Less(a)
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}
