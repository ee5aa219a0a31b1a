// Package server boots boards over a network: DHCP, TFTP, HTTP, what nodes ask for
// over TLS, and the page that shows it all.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"machined/api/pki"
	"machined/images/netboot"
	"machined/tools/netboot/bootfiles"
	"machined/tools/netboot/dhcp"
	"machined/tools/netboot/provision"
	"machined/tools/netboot/registry"
	"machined/tools/netboot/tftp"
	"machined/tools/netboot/web"
)

// stateDir has what outlasts the server, in the netboot directory.
const stateDir = "state"

// Options are what a server is to do.
type Options struct {
	Dir string // that `machinectl netboot build` made
	// DHCP has the interface and the addresses; what concerns boots is set here.
	DHCP     dhcp.Config
	HTTPPort uint16 // of the files that boards load
	NodePort uint16 // of what nodes ask over TLS
	Lab      string // HOST:PORT of the page; empty for none
	Unknown  registry.Decision
	// Consoles are where consoles of boards can be read, for the page: see
	// registry.Options.
	Consoles map[string]string
	Log      *slog.Logger
}

// Server is what Run runs, for who watches it.
type Server struct {
	Options
	Registry *registry.Registry
	Metrics  web.Metrics

	files   *bootfiles.Files
	chooser *chooser
	configs provision.Configs
	ids     *provision.Identities
	tls     *tls.Config
	dhcp    *dhcp.Server
	tftp    *tftp.Server
}

// New checks all that a server needs, without listening yet. The error has every
// fault that was found.
func New(o Options) (*Server, error) {
	s := &Server{Options: o, configs: provision.Configs{Dir: o.Dir}}
	var err error
	if s.files, err = bootfiles.Open(o.Dir); err != nil {
		return nil, err
	}
	ca, err := pki.LoadCA(filepath.Join(o.Dir, netboot.PKIDir))
	if err != nil {
		return nil, fmt.Errorf("load the CA of the lab; `machinectl netboot build` makes it: %w", err)
	}
	own, err := ca.IssueNode([]string{netboot.ServerName}, time.Now())
	if err != nil {
		return nil, fmt.Errorf("issue the certificate of the server: %w", err)
	}
	s.tls = &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{own.Cert.Raw}, PrivateKey: own.Key}},
	}
	s.ids = &provision.Identities{Dir: o.Dir, CA: ca, Now: time.Now}
	if err := s.configs.Check(); err != nil {
		return nil, err
	}
	state := filepath.Join(o.Dir, stateDir)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	s.Registry, err = registry.New(registry.Options{
		File: filepath.Join(state, "boards.json"), Unknown: o.Unknown, Consoles: o.Consoles, Known: s.configs.Known, Neighbour: neighbour, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	return s, s.prepare(state)
}

// prepare makes the servers of the two protocols that firmware speaks.
func (s *Server) prepare(state string) (err error) {
	s.files.Token = s.Registry.Token
	s.files.Board = func(a netip.Addr) string {
		b, _ := s.Registry.At(a)
		return b.Name
	}
	s.files.NodePort, s.files.HTTPPort = s.NodePort, s.HTTPPort
	s.chooser = &chooser{files: s.files, registry: s.Registry, httpPort: s.HTTPPort, server: s.DHCP.ServerIP}
	c := s.DHCP
	c.Boot, c.Exists, c.OnEvent = s.chooser, s.chooser.exists, s.onDHCP(dhcp.Logger(s.Log))
	if c.Mode == dhcp.Full && c.LeaseFile == "" {
		c.LeaseFile = filepath.Join(state, "leases.json")
	}
	if s.dhcp, err = dhcp.New(c); err != nil {
		return err
	}
	s.tftp, err = tftp.New(tftp.Options{Interface: s.DHCP.Interface, Open: s.openTFTP, OnEvent: s.onTFTP(tftp.Logger(s.Log))})
	return err
}

func (s *Server) openTFTP(_ context.Context, c tftp.Client, name string) (tftp.Content, error) {
	local := c.LocalIP.Unmap()
	if !local.IsValid() {
		local = s.DHCP.ServerIP
	}
	return s.open(bootfiles.Asks{Client: c.Addr.Addr().Unmap(), Server: local}, name)
}

// open opens a file for a board that is answered.
func (s *Server) open(a bootfiles.Asks, name string) (bootfiles.Content, error) {
	if !s.Registry.Answers(a.Client) {
		return nil, fmt.Errorf("the board at %s is ignored, and gets nothing: %w", a.Client, fs.ErrNotExist)
	}
	return s.files.Open(a, name)
}

// onDHCP tells the registry of what the DHCP server has done.
func (s *Server) onDHCP(log func(dhcp.Event)) func(dhcp.Event) {
	return func(e dhcp.Event) {
		log(e)
		id := registry.Name(e.Client.MAC.String())
		switch e.Kind {
		case dhcp.Offered, dhcp.Booting:
			s.Metrics.Offers.Add(1)
		case dhcp.Leased:
			s.Metrics.Leases.Add(1)
		case dhcp.Looped, dhcp.Refused, dhcp.Exhausted, dhcp.Declined:
			s.Metrics.Refusals.Add(1)
			s.Registry.Fail(id, "dhcp "+string(e.Kind)+": "+e.Detail)
		case dhcp.Elsewhere:
			s.Registry.Fail(id, "dhcp: "+e.Detail)
		}
		if e.Address.IsValid() && e.Client.Stage != "" {
			s.Registry.Address(e.Client.MAC.String(), e.Address)
		}
	}
}

func (s *Server) onTFTP(log func(tftp.Event)) func(tftp.Event) {
	return func(e tftp.Event) {
		log(e)
		t := registry.Transfer{Address: e.Client.Addr.Addr().Unmap(), Serial: s.files.Serial(e.Name), File: e.Name, Bytes: e.Bytes, Total: e.Total}
		switch e.Kind {
		case tftp.Started, tftp.Progress:
		case tftp.Done:
			t.Done = true
			s.Metrics.TFTPDone.Add(1)
			s.Metrics.TFTPBytes.Add(uint64(e.Bytes))
		case tftp.Failed:
			t.Done, t.Err = true, e.Reason
			if e.Err != nil {
				t.Err = e.Err.Error()
			}
			s.Metrics.TFTPFailed.Add(1)
		case tftp.Refused:
			s.refused(t.Address, e)
			return
		default:
			return // firmware that looks whether a file is there
		}
		s.Registry.Transferred(t)
		if e.Kind == tftp.Done && isLast(s.files.Index(), e.Name) {
			s.Registry.Loaded(t.Address)
		}
	}
}

// refused shows a file that is gone, and that a Raspberry Pi stops without. Others
// that are not there are optional, and who is ignored is told so of all.
func (s *Server) refused(client netip.Addr, e tftp.Event) {
	b, ok := s.Registry.At(client)
	if !ok || s.files.Index().Boards[b.Name].Tree == "" || !errors.Is(e.Err, fs.ErrNotExist) || !s.Registry.Answers(client) {
		return
	}
	if s.files.PiNeeds(e.Name) {
		s.Registry.Fail(b.ID, fmt.Sprintf("tftp: %s is not there, and it does not boot without: `machinectl netboot build` makes it anew", e.Name))
	}
}

// onHTTP is onTFTP for the two HTTP servers.
func (s *Server) onHTTP(t web.Transfer) {
	r := registry.Transfer{Address: t.Client, File: t.File, Bytes: t.Bytes, Total: t.Total, Done: t.Done}
	if t.Err != nil {
		r.Err = t.Err.Error()
	}
	s.Registry.Transferred(r)
	switch {
	case t.Err != nil:
		s.Metrics.HTTPFailed.Add(1)
		s.Log.Warn("http failed", "client", t.Client.String(), "file", registry.Clean(t.File), "error", t.Err.Error())
	case t.Done:
		s.Metrics.HTTPDone.Add(1)
		s.Metrics.HTTPBytes.Add(uint64(t.Bytes))
		s.Log.Info("http done", "client", t.Client.String(), "file", registry.Clean(t.File), "bytes", t.Bytes, "total", t.Total)
		if isLast(s.files.Index(), t.File) && t.Bytes == t.Total {
			s.Registry.Loaded(t.Client)
		}
	}
}

// Run serves until the context ends, which is no error, or one of the servers
// fails.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.files.Close()
	runs, err := s.listen(ctx)
	if err != nil {
		return err
	}
	s.Log.Info("serving", "interface", s.DHCP.Interface, "address", s.DHCP.ServerIP.String(), "dhcp", string(s.DHCP.Mode),
		"http", s.HTTPPort, "nodes", s.NodePort, "page", s.Lab)
	ended := make(chan error)
	for _, run := range runs {
		go func() { ended <- run(ctx) }()
	}
	for range runs {
		err = errors.Join(err, <-ended)
		cancel() // one alone is of no use
	}
	return err
}
