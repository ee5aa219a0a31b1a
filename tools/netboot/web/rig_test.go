package web

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"machined/images/netboot"
	"machined/tools/netboot/bootfiles"
	"machined/tools/netboot/registry"
)

// content is a file in memory.
type content struct{ *bytes.Reader }

func (content) Close() error { return nil }

// rig is the HTTP side of a server with one board.
type rig struct {
	t        *testing.T
	registry *registry.Registry
	config   string
	err      error // of the config

	mu        sync.Mutex
	transfers []Transfer
}

var loopback = netip.MustParseAddr("127.0.0.1")

const mac = "52:54:00:12:34:56"

func newRig(t *testing.T, unknown registry.Decision) *rig {
	t.Helper()
	r, err := registry.New(registry.Options{Unknown: unknown})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, registry: r, config: "machine: {hostname: node-1}\n"}
	r.Ask(registry.Facts{MAC: mac, Name: "x86_64-uefi", Address: loopback})
	return g
}

func (g *rig) transferred(t Transfer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.transfers = append(g.transfers, t)
}

// last is the last transfer that was told of.
func (g *rig) last() Transfer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.transfers) == 0 {
		g.t.Fatal("no transfer was told of")
	}
	return g.transfers[len(g.transfers)-1]
}

func (g *rig) serve(h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	g.t.Cleanup(func() {
		s.CloseClientConnections() // viewers stay for ever
		s.Close()
	})
	return s
}

func (g *rig) node() *httptest.Server {
	n := &Node{
		Registry: g.registry, OnTransfer: g.transferred,
		Config: func(registry.Board) (string, []byte, error) { return "default.yaml", []byte(g.config), g.err },
		Identity: func(b registry.Board, text []byte) (netboot.Identity, error) {
			return netboot.Identity{CA: "ca", Cert: "cert of " + b.ID, Key: "key"}, nil
		},
		Image: func(board string) (bootfiles.Content, netboot.Disk, error) {
			if board != "x86_64-uefi" {
				return nil, netboot.Disk{}, fs.ErrNotExist
			}
			return content{bytes.NewReader([]byte("an image in gzip"))}, netboot.Disk{File: netboot.File{Path: "x86_64-uefi/disk.img.gz", SHA256: "ab"}, DiskSize: 99}, nil
		},
	}
	return g.serve(n.Handler())
}

func (g *rig) boot(files map[string]string) *httptest.Server {
	return g.serve(Boot{OnTransfer: g.transferred, Open: func(a bootfiles.Asks, name string) (bootfiles.Content, error) {
		if a.Client != loopback || a.Server != loopback {
			return nil, errors.New("the ends of the connection are not known")
		}
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return content{bytes.NewReader([]byte(text))}, nil
	}})
}

// call does a request and returns the answer with its body.
func (g *rig) call(method, url, body string, headers ...string) (*http.Response, string) {
	g.t.Helper()
	q, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp, string(text)
}
