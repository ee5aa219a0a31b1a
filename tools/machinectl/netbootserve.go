package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"machined/tools/netboot/dhcp"
	"machined/tools/netboot/registry"
	"machined/tools/netboot/server"
)

// serveFlags are the flags of `netboot serve`.
type serveFlags struct {
	dir, iface, pool, router, lab, unknown string
	dns, statics, consoles                 []string
	proxy, json                            bool
	lease                                  time.Duration
	httpPort, nodePort                     uint16
}

func newNetbootServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Boot the boards of a network",
		Long: "Boot the boards at an interface by PXE, HTTP boot, iPXE or as a Raspberry Pi does, from\n" +
			"what `netboot build` has put into DIR. With --pool this is the DHCP server of that\n" +
			"network; with --proxy it stands beside the one that is there. The page at --lab shows\n" +
			"the boards and takes decisions about them: whoever reaches it can.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stderr := cmd.ErrOrStderr()
			line := newStatusLine(stderr)
			if line != nil {
				stderr = line
			}
			o, err := f.options(stderr)
			if err != nil {
				return err
			}
			s, err := server.New(o)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if f.lab != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "the boards are shown at http://%s/\n", f.lab)
			}
			if line == nil {
				return s.Run(ctx)
			}
			var wg sync.WaitGroup
			wg.Go(func() { line.follow(ctx, s.Registry.Boards) })
			err = s.Run(ctx)
			stop()
			wg.Wait()
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", "", "the netboot directory DIR")
	flags.StringVar(&f.iface, "interface", "", "interface that the boards are at")
	flags.BoolVar(&f.proxy, "proxy", false, "stand beside the DHCP server of the network, and give out no addresses")
	flags.StringVar(&f.pool, "pool", "", "addresses to give out, FIRST-LAST")
	flags.StringVar(&f.router, "router", "", "router that the boards are told of")
	flags.StringSliceVar(&f.dns, "dns", nil, "name servers that the boards are told of")
	flags.StringArrayVar(&f.statics, "static", nil, "address of one board, MAC=ADDRESS or MAC=ADDRESS,HOSTNAME")
	flags.StringArrayVar(&f.consoles, "console", nil, "where the console of a board can be read, for the page: MAC=ADDRESS or SERIAL=ADDRESS")
	flags.DurationVar(&f.lease, "lease", time.Hour, "life of a lease")
	flags.StringVar(&f.unknown, "unknown", "accept", "boards without a config of their own: accept them with the default, hold them until somebody accepts them, or ignore them")
	flags.Uint16Var(&f.httpPort, "http-port", 8080, "port of the files that boards load")
	flags.Uint16Var(&f.nodePort, "node-port", 8443, "port of what nodes ask for over TLS")
	flags.StringVar(&f.lab, "lab", "127.0.0.1:8088", "HOST:PORT of the page that shows the boards; empty for none")
	flags.BoolVar(&f.json, "json", false, "log as JSON, a line each step")
	for _, name := range []string{"dir", "interface"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return cmd
}

// options reads the flags. The error has all that is wrong with them.
func (f *serveFlags) options(stderr io.Writer) (server.Options, error) {
	var handler slog.Handler = slog.NewTextHandler(stderr, nil)
	if f.json {
		handler = slog.NewJSONHandler(stderr, nil)
	}
	o := server.Options{Dir: f.dir, HTTPPort: f.httpPort, NodePort: f.nodePort, Lab: f.lab, Log: slog.New(handler)}
	var faults []error
	var ok bool
	if o.Unknown, ok = registry.ParseDecision(f.unknown); !ok {
		faults = append(faults, fmt.Errorf("--unknown %q: want accept, hold or ignore", f.unknown))
	}
	if f.proxy == (f.pool != "") {
		faults = append(faults, errors.New("say either --pool FIRST-LAST or --proxy"))
	}
	for _, c := range f.consoles {
		board, at, ok := strings.Cut(c, "=")
		if board = registry.Name(board); !ok || board == "" || at == "" {
			faults = append(faults, fmt.Errorf("--console %q: want MAC=ADDRESS or SERIAL=ADDRESS, such as 52:54:00:12:34:56=telnet://10.0.0.5:2001", c))
			continue
		}
		if o.Consoles == nil {
			o.Consoles = make(map[string]string)
		}
		o.Consoles[board] = at
	}
	address, err := interfaceAddress(f.iface)
	if err != nil {
		faults = append(faults, err)
	}
	o.DHCP = dhcp.Config{Interface: f.iface, ServerIP: address.Addr(), Mode: dhcp.Proxy}
	if !f.proxy {
		o.DHCP.Mode, o.DHCP.Subnet, o.DHCP.LeaseTime = dhcp.Full, address.Masked(), f.lease
		faults = append(faults, f.leases(&o.DHCP)...)
	} else if f.router != "" || len(f.dns)+len(f.statics) > 0 {
		faults = append(faults, errors.New("--router, --dns and --static go with --pool: with --proxy the other server says that"))
	}
	if len(faults) > 0 {
		return o, usagef("%w", errors.Join(faults...))
	}
	return o, nil
}

// leases reads what the flags say of addresses.
func (f *serveFlags) leases(c *dhcp.Config) (faults []error) {
	parse := func(flag, s string) netip.Addr {
		a, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s %q: %w", flag, s, err))
		}
		return a
	}
	if first, last, ok := strings.Cut(f.pool, "-"); ok {
		c.PoolFirst, c.PoolLast = parse("pool", first), parse("pool", last)
	} else if f.pool != "" {
		faults = append(faults, fmt.Errorf("--pool %q: want FIRST-LAST", f.pool))
	}
	if f.router != "" {
		c.Router = parse("router", f.router)
	}
	for _, s := range f.dns {
		c.DNS = append(c.DNS, parse("dns", s))
	}
	for _, s := range f.statics {
		mac, rest, _ := strings.Cut(s, "=")
		address, name, _ := strings.Cut(rest, ",")
		m, err := dhcp.ParseMAC(mac)
		if err != nil {
			faults = append(faults, fmt.Errorf("--static %q: %w", s, err))
			continue
		}
		c.Statics = append(c.Statics, dhcp.Static{MAC: m, Address: parse("static", address), Hostname: name})
	}
	return faults
}

// interfaceAddress is the first IPv4 address of an interface.
func interfaceAddress(name string) (netip.Prefix, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("--interface %q: %w", name, err)
	}
	list, err := ifi.Addrs()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("--interface %q: %w", name, err)
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("--interface %q: it has no IPv4 address; give it one, as in `ip address add 10.10.0.1/24 dev %s`", name, name)
}
