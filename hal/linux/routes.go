package linux

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"

	"machined/hal"
)

// AddRoute implements hal.Links.
func (l *Links) AddRoute(r hal.Route) error {
	err := l.conn.Route.Add(routeMessage(r))
	if errors.Is(err, unix.EEXIST) {
		// The kernel looks at destination and metric only. Another gateway's
		// route in that place is not the one that was asked for.
		there, listErr := l.hasRoute(r)
		if there || listErr != nil {
			return listErr
		}
	}
	return linkError("add route "+r.Destination.String(), r.Link, err)
}

// RemoveRoute implements hal.Links.
func (l *Links) RemoveRoute(r hal.Route) error {
	// The kernel takes what a request leaves open (no gateway, metric 0) for
	// "any", and would remove another route to the same destination.
	there, err := l.hasRoute(r)
	if !there || err != nil {
		return err
	}
	m := routeMessage(r)
	// Any protocol and scope: the route may be one that the kernel made.
	m.Protocol, m.Scope = unix.RTPROT_UNSPEC, unix.RT_SCOPE_NOWHERE
	err = l.conn.Route.Delete(m)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return linkError("remove route "+r.Destination.String(), r.Link, err)
}

func (l *Links) hasRoute(r hal.Route) (bool, error) {
	routes, err := l.Routes()
	return slices.Contains(routes, asListed(r)), err
}

// asListed is r as the kernel shows it: in IPv6 it makes 1024 of metric 0
// (IP6_RT_PRIO_USER).
func asListed(r hal.Route) hal.Route {
	if r.Metric == 0 && r.Destination.Address.Len == 16 {
		r.Metric = 1024
	}
	return r
}

func routeMessage(r hal.Route) *rtnetlink.RouteMessage {
	r = asListed(r)
	m := &rtnetlink.RouteMessage{
		Family: family(r.Destination.Address), DstLength: r.Destination.Bits,
		Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_STATIC, Type: unix.RTN_UNICAST,
		Scope:      unix.RT_SCOPE_UNIVERSE,
		Attributes: rtnetlink.RouteAttributes{OutIface: r.Link, Priority: r.Metric},
	}
	if r.Destination.Bits > 0 {
		m.Attributes.Dst = net.IP(r.Destination.Address.Bytes[:r.Destination.Address.Len])
	}
	if r.Gateway.Len > 0 {
		m.Attributes.Gateway = net.IP(r.Gateway.Bytes[:r.Gateway.Len])
	} else {
		m.Scope = unix.RT_SCOPE_LINK
	}
	return m
}

// Routes implements hal.Links.
func (l *Links) Routes() ([]hal.Route, error) {
	messages, err := l.conn.Route.List()
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var routes []hal.Route
	for _, m := range messages {
		if m.Table != unix.RT_TABLE_MAIN || m.Type != unix.RTN_UNICAST {
			continue
		}
		r := hal.Route{
			Link: m.Attributes.OutIface, Metric: m.Attributes.Priority,
			Gateway:     addressOf(m.Attributes.Gateway),
			Destination: hal.Prefix{Address: addressOf(m.Attributes.Dst), Bits: m.DstLength},
		}
		if m.Attributes.Dst == nil {
			r.Destination.Address.Len = 4
			if m.Family == unix.AF_INET6 {
				r.Destination.Address.Len = 16
			}
		}
		routes = append(routes, r)
	}
	return routes, nil
}
