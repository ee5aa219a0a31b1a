package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"machined/tools/netboot/iface"
	"machined/tools/netboot/web"
)

const (
	tftpPort = 69
	// maxConnections bounds the connections to each of the HTTP servers, and
	// maxPerBoard those of one address to those that boards use.
	maxConnections, maxPerBoard = 256, 32
	// headerTime bounds the head of a request, idleTime the wait for the next.
	headerTime, idleTime = 10 * time.Second, time.Minute
)

// site is one HTTP server.
type site struct {
	what    string // for people
	address string
	iface   string // that it is bound to; empty for none
	each    int    // connections of one address
	handler http.Handler
	tls     *tls.Config
	taken   string // what to do when another program has the port
}

func (s *Server) sites() []site {
	boot := web.Boot{Open: s.open, OnTransfer: s.onHTTP}
	node := &web.Node{Registry: s.Registry, Config: s.configs.Config, Identity: s.ids.Of, Image: s.files.Image, OnTransfer: s.onHTTP}
	lab := &web.Lab{Registry: s.Registry, Metrics: &s.Metrics}
	ip, name := s.DHCP.ServerIP, s.DHCP.Interface
	sites := []site{
		{"files", netip.AddrPortFrom(ip, s.HTTPPort).String(), name, maxPerBoard, boot, nil, "another program has the port: stop it, or choose another by --http-port"},
		{"nodes", netip.AddrPortFrom(ip, s.NodePort).String(), name, maxPerBoard, node.Handler(), s.tls, "another program has the port: stop it, or choose another by --node-port"},
	}
	if s.Lab != "" {
		sites = append(sites, site{"the page", s.Lab, "", maxConnections, lab.Handler(), nil, "another program has the port: stop it, or choose another by --lab"})
	}
	return sites
}

// listen opens all sockets, so that what is in use is said before anything is
// answered. What boards ask is on their interface alone.
func (s *Server) listen(ctx context.Context) (runs []func(context.Context) error, err error) {
	for _, h := range s.sites() {
		l, listenErr := listenTCP(h.iface, h.address)
		if listenErr != nil {
			err = errors.Join(err, fmt.Errorf("listen for %s: %w%s", h.what, listenErr, iface.Remedy(listenErr, h.taken)))
			continue
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		runs = append(runs, serveHTTP(limit(l, maxConnections, h.each), h.handler, h.tls, s.Log))
	}
	conn, listenErr := listenTFTP(ctx, s.DHCP.Interface)
	if listenErr != nil {
		err = errors.Join(err, listenErr)
	} else {
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		runs = append(runs, func(ctx context.Context) error { return s.tftp.Serve(ctx, conn) })
	}
	d, listenErr := s.dhcp.Listen()
	if listenErr != nil {
		return nil, errors.Join(err, listenErr)
	}
	return append(runs, d.Serve), err
}

// listenTCP listens at an address, on one interface alone if that is not empty.
func listenTCP(ifname, address string) (*net.TCPListener, error) {
	lc := new(net.ListenConfig)
	lc.SetMultipathTCP(false)
	if ifname != "" {
		lc = iface.Listen(ifname)
	}
	l, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// listenTFTP listens at any address of the interface, as firmware that was told by a
// broadcast may ask by one.
func listenTFTP(ctx context.Context, ifname string) (net.PacketConn, error) {
	conn, err := iface.Listen(ifname).ListenPacket(ctx, "udp4", netip.AddrPortFrom(netip.IPv4Unspecified(), tftpPort).String())
	if err != nil {
		return nil, fmt.Errorf("listen for TFTP on %s: %w%s", ifname, err,
			iface.Remedy(err, "another TFTP server runs on this machine (dnsmasq, tftpd-hpa, atftpd, libvirt): stop it there"))
	}
	return conn, nil
}

// serveHTTP serves on l until the context ends.
func serveHTTP(l net.Listener, h http.Handler, c *tls.Config, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		hs := &http.Server{
			Handler: h, TLSConfig: c, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: 16 << 10,
			ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
			BaseContext: func(net.Listener) context.Context { return ctx },
		}
		stop := context.AfterFunc(ctx, func() { _ = hs.Close() })
		defer stop()
		serve := hs.Serve
		if c != nil {
			serve = func(l net.Listener) error { return hs.ServeTLS(l, "", "") }
		}
		if err := serve(l); ctx.Err() == nil {
			return fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
		return nil
	}
}
