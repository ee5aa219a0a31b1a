package main

import (
	"net/netip"
	"strings"

	"machined/hal"
	"machined/hal/linux"
	"machined/init/config"
	"machined/reconcile/assembly"
	"machined/reconcile/block"
	"machined/reconcile/network"
	"machined/reconcile/timesync"
)

// newSettings is a config in the words of the core, which does without
// net/netip.
func newSettings(m config.Machine) *assembly.Settings {
	return &assembly.Settings{
		Network: networkSettings(m.Hostname, m.Network), Block: blockSettings(m),
		Time:    timesync.Settings{Servers: m.Time.Servers, Disabled: m.Time.Disabled},
		Runtime: runtimeSettings(m),
	}
}

func networkSettings(hostname string, c config.Network) network.Settings {
	s := network.Settings{Hostname: hostname, Search: strings.Join(c.Search, " ")}
	var servers []string
	for _, a := range c.Nameservers {
		servers = append(servers, a.String())
	}
	s.Nameservers = strings.Join(servers, " ")
	for _, i := range c.Interfaces {
		s.Interfaces = append(s.Interfaces, network.Interface{
			Name: i.Name, Up: i.Up, MTU: i.MTU, DHCP4: i.DHCP4, AcceptRA: i.DHCP6,
			Addresses: prefixes(i.Addresses), Routes: routes(i.Routes),
		})
	}
	return s
}

func prefixes(list []netip.Prefix) []hal.Prefix {
	var out []hal.Prefix
	for _, p := range list {
		out = append(out, linux.PrefixFrom(p))
	}
	return out
}

func routes(list []config.Route) []network.Route {
	var out []network.Route
	for _, r := range list {
		out = append(out, network.Route{Destination: linux.PrefixFrom(r.To), Gateway: linux.AddressFrom(r.Via), Metric: r.Metric})
	}
	return out
}

// stateSize is the size of STATE in bytes, unless the config has another.
const stateSize = 128 << 20

func blockSettings(m config.Machine) block.Settings {
	s := block.Settings{StateSize: int64(m.Volumes.StateSize), EphemeralSize: int64(m.Volumes.EphemeralSize)}
	if s.StateSize == 0 {
		s.StateSize = stateSize
	}
	if m.Install != nil {
		s.Disk, s.Wipe = m.Install.Disk, m.Install.Wipe
		if d := m.Install.Selector; d != nil {
			s.Selector = &block.Selector{
				Model: d.Model, Serial: d.Serial, Bus: d.Bus, MinSize: int64(d.MinSize), MaxSize: int64(d.MaxSize),
			}
		}
	}
	return s
}
