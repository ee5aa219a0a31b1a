package main

import (
	"io"
	"strings"
	"testing"

	"machined/tools/netboot/dhcp"
	"machined/tools/netboot/registry"
)

// TestServeFlags: what the flags mean, and all that is wrong with them at once.
func TestServeFlags(t *testing.T) {
	f := serveFlags{
		dir: "lab", iface: "lo", pool: "127.0.0.100-127.0.0.120", router: "127.0.0.2", dns: []string{"127.0.0.3"}, unknown: "hold",
		statics: []string{"52:54:00:12:34:56=127.0.0.9,node-1"}, consoles: []string{"52:54:00:12:34:56=telnet://10.0.0.5:2001"},
	}
	o, err := f.options(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d := o.DHCP
	if d.Mode != dhcp.Full || d.ServerIP.String() != "127.0.0.1" || d.Subnet.String() != "127.0.0.0/8" || d.PoolFirst.String() != "127.0.0.100" || d.PoolLast.String() != "127.0.0.120" ||
		d.Router.String() != "127.0.0.2" || len(d.DNS) != 1 || len(d.Statics) != 1 || d.Statics[0].Hostname != "node-1" || d.Statics[0].Address.String() != "127.0.0.9" {
		t.Errorf("DHCP is to be %+v", d)
	}
	if o.Unknown != registry.Hold || o.Consoles["52-54-00-12-34-56"] != "telnet://10.0.0.5:2001" {
		t.Errorf("unknown boards are to be %s, consoles are %v", o.Unknown, o.Consoles)
	}
	f = serveFlags{dir: "lab", iface: "lo", proxy: true, unknown: "accept"}
	if o, err := f.options(io.Discard); err != nil || o.DHCP.Mode != dhcp.Proxy || o.DHCP.PoolFirst.IsValid() {
		t.Errorf("with --proxy DHCP is to be %+v, %v", o.DHCP, err)
	}
	for _, c := range []struct {
		flags serveFlags
		says  []string
	}{
		{serveFlags{iface: "lo", unknown: "accept"}, []string{"either --pool FIRST-LAST or --proxy"}},
		{serveFlags{iface: "lo", unknown: "accept", proxy: true, pool: "a-b"}, []string{"either --pool FIRST-LAST or --proxy"}},
		{serveFlags{iface: "none0", unknown: "explode", pool: "127.0.0.100", statics: []string{"x=1"}, consoles: []string{"=", "a"}},
			[]string{`--interface "none0"`, `--unknown "explode"`, "want FIRST-LAST", `--static "x=1"`, `--console "="`, `--console "a"`}},
		{serveFlags{iface: "lo", unknown: "accept", pool: "x-127.0.0.1", router: "y"}, []string{`--pool "x"`, `--router "y"`}},
		{serveFlags{iface: "lo", unknown: "accept", proxy: true, router: "127.0.0.1"}, []string{"go with --pool"}},
	} {
		_, err := c.flags.options(io.Discard)
		if err == nil || exitCode(err) != exitUsage {
			t.Errorf("%+v: %v; want a usage error", c.flags, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v; want %q in it", c.flags, err, want)
			}
		}
	}
}
