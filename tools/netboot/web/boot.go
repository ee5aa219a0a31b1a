// Package web is the HTTP side of a netboot server: the files that firmware and iPXE
// load, what nodes ask for over TLS, and the lab page, which shows the boards.
package web

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"

	"machined/tools/netboot/bootfiles"
)

const (
	// stall is how long a client may take nothing of what it has asked for.
	stall = 30 * time.Second
	// progressEvery is how often a transfer is told of.
	progressEvery = 250 * time.Millisecond
	// piece is how much is sent between looks at the clock, in bytes.
	piece = 1 << 20
)

// Transfer is a file on its way by HTTP.
type Transfer struct {
	Client, Server netip.Addr
	File           string
	Bytes, Total   int64
	Done           bool
	Err            error
}

// Boot serves what boards load, read-only and with ranges. Nothing that it serves
// is secret but a token, which is good once.
type Boot struct {
	Open       func(bootfiles.Asks, string) (bootfiles.Content, error)
	OnTransfer func(Transfer)
}

// ServeHTTP implements http.Handler.
func (b Boot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are served", http.StatusMethodNotAllowed)
		return
	}
	asks := bootfiles.Asks{Client: remote(r), Server: local(r)}
	name := strings.TrimPrefix(r.URL.Path, "/")
	c, err := b.Open(asks, name)
	if err != nil {
		code := http.StatusInternalServerError
		if errors.Is(err, fs.ErrNotExist) {
			code = http.StatusNotFound
		}
		b.OnTransfer(Transfer{Client: asks.Client, Server: asks.Server, File: name, Err: err})
		http.Error(w, http.StatusText(code), code)
		return
	}
	defer c.Close()
	t := Transfer{Client: asks.Client, Server: asks.Server, File: name, Total: c.Size()}
	m := &meter{ResponseWriter: w, deadline: http.NewResponseController(w), tell: func(n int64) {
		t.Bytes = n
		b.OnTransfer(t)
	}}
	serve(m, r, name, c)
	if r.Method == http.MethodHead {
		return
	}
	t.Bytes, t.Done, t.Err = m.sent, true, m.err
	if t.Err == nil && r.Context().Err() != nil {
		t.Err = context.Cause(r.Context())
	}
	b.OnTransfer(t)
}

// serve answers with a file. The type is set: nothing is guessed from content.
func serve(w http.ResponseWriter, r *http.Request, name string, c bootfiles.Content) {
	w.Header().Set("Content-Type", mediaType(name))
	var body io.ReadSeeker = io.NewSectionReader(c, 0, c.Size())
	if p, ok := c.(*bootfiles.Plain); ok {
		body = p.File // the kernel sends it
	}
	http.ServeContent(w, r, path.Base(name), time.Time{}, body)
}

// mediaType is what UEFI's HTTP boot goes by (UEFI 2.10, 24.7.3.1), and iPXE not.
func mediaType(name string) string {
	switch path.Ext(name) {
	case ".efi":
		return "application/efi"
	case ".ipxe", ".txt":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// meter counts what is sent, and ends with a client that takes nothing.
type meter struct {
	http.ResponseWriter
	deadline *http.ResponseController
	tell     func(sent int64)
	sent     int64
	told     time.Time
	err      error
}

func (m *meter) count(n int64, err error) {
	m.sent += n
	if err != nil {
		m.err = err
	}
	if now := time.Now(); now.Sub(m.told) >= progressEvery {
		m.told = now
		m.tell(m.sent)
	}
}

// Write implements io.Writer.
func (m *meter) Write(b []byte) (int, error) {
	_ = m.deadline.SetWriteDeadline(time.Now().Add(stall))
	n, err := m.ResponseWriter.Write(b)
	m.count(int64(n), err)
	return n, err
}

// ReadFrom has the kernel send a file, a piece at a time.
func (m *meter) ReadFrom(r io.Reader) (n int64, err error) {
	from, ok := m.ResponseWriter.(io.ReaderFrom)
	limited, isLimited := r.(*io.LimitedReader)
	if !ok || !isLimited {
		return io.Copy(writerOnly{m}, r)
	}
	for limited.N > 0 && err == nil {
		next := &io.LimitedReader{R: limited.R, N: min(limited.N, piece)}
		want := next.N
		_ = m.deadline.SetWriteDeadline(time.Now().Add(stall))
		var k int64
		k, err = from.ReadFrom(next)
		n += k
		limited.N -= k
		m.count(k, err)
		if k < want {
			break
		}
	}
	return n, err
}

// writerOnly hides ReadFrom.
type writerOnly struct{ io.Writer }

// remote and local are the ends of a request's connection.
func remote(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}

func local(r *http.Request) netip.Addr {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
