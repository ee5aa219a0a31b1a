package network

import (
	"strconv"
	"strings"
	"time"

	"machined/hal"
	"machined/reconcile"
)

// A lease is kept as lines of a word and values. The file in Run has all of it,
// with times since boot; the one in Keep has the address alone, since a clock
// that stands still while the power is off cannot tell whether a lease still
// holds. Both are of one piece of hardware: another that has its name has
// another identity, too.

const leaseHeader = "lease 1"

func (l *lease) runPath() string { return l.dhcp.Run + "/" + l.name }

// keepPath returns where the address outlasts a restart, "" for nowhere.
func (l *lease) keepPath() string {
	dir := l.dhcp.Keep()
	if dir == "" {
		return ""
	}
	return dir + "/" + l.name
}

// save keeps the lease for a later start of the program in this boot. A file
// that cannot be written costs an exchange then.
func (l *lease) save() {
	_ = l.dhcp.Files.Replace(l.runPath(), []byte(l.encode()), false)
}

// keeping writes the address for the next boot beside the loop, once there is a
// place for it. A renewal writes nothing: cards wear.
type keeping struct {
	address hal.Prefix // that the file is to have; absent for no file
	stale   bool       // the file may say something else
	retry   time.Duration
	job     hal.Job // under way
}

const (
	keepPoll  = time.Second
	keepRetry = time.Minute
)

func (k *keeping) want(address hal.Prefix) {
	if k.address != address {
		k.address, k.stale = address, true
	}
}

// keep brings the file up to date. Jobs end in any order, so there is one at a
// time.
func (l *lease) keep(r *reconcile.Run) {
	k := &l.keeping
	if k.job != nil && k.job.Done() {
		if k.job.Err() != nil {
			k.stale, k.retry = true, r.Now+keepRetry
		}
		k.job = nil
	}
	switch {
	case k.job != nil:
		r.WakeIn(keepPoll)
	case k.stale && r.Now < k.retry:
		r.WakeAt(k.retry)
	case k.stale:
		if k.start(l); k.job != nil {
			r.WakeIn(keepPoll)
		}
	}
}

// start starts the job; without a place for the file it waits for one.
func (k *keeping) start(l *lease) {
	path, files := l.keepPath(), l.dhcp.Files
	if path == "" {
		return
	}
	k.stale = false
	if k.address.Address.Len == 0 {
		k.job = l.dhcp.Jobs.Start(func() error { return files.Remove(path) })
		return
	}
	text := leaseHeader + "\nmac " + formatMAC(l.mac) + "\naddress " + k.address.String() + "\n"
	k.job = l.dhcp.Jobs.Start(func() error {
		if there, err := files.Read(path); err == nil && string(there) == text {
			return nil
		}
		return files.Replace(path, []byte(text), false)
	})
}

// forget removes the files of a lease that is void.
func (l *lease) forget() {
	_ = l.dhcp.Files.Remove(l.runPath())
	l.keeping.address, l.keeping.stale = hal.Prefix{}, true
}

// remember goes on with the lease of an earlier start of the program. Without
// one, or on a link that was away meanwhile, it asks for the last address again.
func (l *lease) remember(now time.Duration) {
	var found lease
	if l.read(l.runPath(), &found) && found.grantedAt <= now && found.expireAt > now {
		l.last = found.granted.Address.Address
		if found.index == l.index {
			l.granted, l.held = found.granted, true
			l.times(found.grantedAt)
			l.keeping.want(l.granted.Address)
			l.settle(now)
			return
		}
	} else if path := l.keepPath(); path != "" && l.read(path, &found) {
		l.last = found.granted.Address.Address
		l.keeping.address = found.granted.Address
	}
	l.verify = true
	l.restart(now)
}

// read reads a file about this piece of hardware.
func (l *lease) read(path string, into *lease) bool {
	text, err := l.dhcp.Files.Read(path)
	*into = lease{}
	return err == nil && into.decode(string(text)) && into.mac == l.mac
}

func (l *lease) encode() string {
	m := &l.granted
	var b strings.Builder
	line := func(word, value string) {
		if value != "" {
			b.WriteString("\n" + word + " " + value)
		}
	}
	number := func(word string, n uint64) { line(word, strconv.FormatUint(n, 10)) }
	b.WriteString(leaseHeader)
	line("mac", formatMAC(l.mac))
	number("index", uint64(l.index))
	line("address", m.Address.String())
	line("server", m.Server.String())
	number("lease", uint64(m.Lease))
	number("renew", uint64(m.Renew))
	number("rebind", uint64(m.Rebind))
	number("granted", uint64(l.grantedAt))
	number("mtu", uint64(m.MTU))
	line("hostname", m.Hostname)
	line("nameservers", addresses(m.Nameservers))
	line("timeservers", addresses(m.TimeServers))
	line("search", strings.Join(m.Search, " "))
	for _, r := range m.Routes {
		line("route", r.Destination.String()+" "+r.Gateway.String())
	}
	b.WriteString("\n")
	return b.String()
}

// decode reads what encode wrote, and reports whether it is whole.
func (l *lease) decode(text string) bool {
	lines := strings.Split(text, "\n")
	if lines[0] != leaseHeader || lines[len(lines)-1] != "" {
		return false
	}
	m := &l.granted
	ok := true
	for _, line := range lines[1 : len(lines)-1] {
		word, value, _ := strings.Cut(line, " ")
		good := true
		switch word {
		case "mac":
			l.mac, good = parseMAC(value)
		case "index":
			l.index, good = parseNumber(value)
		case "address":
			m.Address, good = parsePrefix(value)
		case "server":
			m.Server, good = parseAddress(value)
		case "lease":
			m.Lease, good = parseNumber(value)
		case "renew":
			m.Renew, good = parseNumber(value)
		case "rebind":
			m.Rebind, good = parseNumber(value)
		case "mtu":
			m.MTU, good = parseNumber(value)
		case "granted":
			n, err := strconv.ParseInt(value, 10, 62)
			l.grantedAt, good = time.Duration(n), err == nil && n >= 0
		case "hostname":
			m.Hostname = value
		case "nameservers":
			m.Nameservers, good = parseAddresses(value)
		case "timeservers":
			m.TimeServers, good = parseAddresses(value)
		case "search":
			m.Search = strings.Fields(value)
		case "route":
			var r hal.DHCPRoute
			r, good = parseRoute(value)
			m.Routes = append(m.Routes, r)
		}
		ok = ok && good
	}
	ok = ok && usable(m)
	if ok {
		l.times(l.grantedAt)
	}
	return ok
}

func parseRoute(text string) (r hal.DHCPRoute, ok bool) {
	destination, gateway, _ := strings.Cut(text, " ")
	if r.Destination, ok = parsePrefix(destination); ok && gateway != "" {
		r.Gateway, ok = parseAddress(gateway)
	}
	return r, ok
}

func parseAddresses(text string) (list []hal.Address, ok bool) {
	for _, word := range strings.Fields(text) {
		a, ok := parseAddress(word)
		if !ok {
			return nil, false
		}
		list = append(list, a)
	}
	return list, true
}

func parsePrefix(text string) (p hal.Prefix, ok bool) {
	address, bits, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(bits, 10, 8)
	if p.Address, ok = parseAddress(address); !ok || err != nil || n > 32 {
		return hal.Prefix{}, false
	}
	p.Bits = uint8(n)
	return p, true
}

// parseAddress reads an IPv4 address: DHCPv4 knows no others.
func parseAddress(text string) (a hal.Address, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return hal.Address{}, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return hal.Address{}, false
		}
		a.Bytes[i] = byte(n)
	}
	a.Len = 4
	return a, true
}

// formatMAC writes twelve hexadecimal digits.
func formatMAC(mac [6]byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 12)
	for _, b := range mac {
		out = append(out, digits[b>>4], digits[b&15])
	}
	return string(out)
}

func parseMAC(text string) (mac [6]byte, ok bool) {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 12 {
		return mac, false
	}
	for i := range mac {
		mac[i] = byte(n >> (40 - 8*i))
	}
	return mac, true
}

func parseNumber(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil
}
