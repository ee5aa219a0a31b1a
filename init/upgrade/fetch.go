package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Fetch reads a file over HTTP from its beginning to its end, and asks again for
// what is missing after a cut.
type Fetch struct {
	Client *http.Client
	URL    string
	// Pause before another try, doubled up to a minute; reset by progress.
	Pause time.Duration
	// Tries without progress until it gives up.
	Tries int
	// Say tells of a cut.
	Say func(format string, args ...any)

	ctx    context.Context
	body   io.ReadCloser
	at     int64
	size   int64 // -1 while unknown
	tag    string
	failed int
}

// NewFetch returns a reader of url that lasts as long as ctx.
func NewFetch(ctx context.Context, client *http.Client, url string, say func(string, ...any)) *Fetch {
	return &Fetch{Client: client, URL: url, Pause: time.Second, Tries: 8, Say: say, ctx: ctx, size: -1}
}

// Close ends the connection.
func (f *Fetch) Close() error {
	if f.body == nil {
		return nil
	}
	return f.body.Close()
}

// Read implements io.Reader.
func (f *Fetch) Read(b []byte) (int, error) {
	for {
		if f.body == nil {
			if err := f.open(); err != nil {
				if err = f.again(err); err != nil {
					return 0, err
				}
				continue
			}
		}
		n, err := f.body.Read(b)
		f.at += int64(n)
		if n > 0 {
			f.failed = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		f.body.Close()
		f.body = nil
		if errors.Is(err, io.EOF) && (f.size < 0 || f.at >= f.size) {
			return 0, io.EOF
		}
		if err = f.again(fmt.Errorf("fetch %s: cut after %d bytes: %w", f.URL, f.at, err)); err != nil {
			return 0, err
		}
	}
}

// permanent is an answer that another try does not change.
type permanent struct{ error }

// open asks for what is missing.
func (f *Fetch) open() error {
	if f.size >= 0 && f.at >= f.size {
		return permanent{io.EOF}
	}
	req, err := http.NewRequestWithContext(f.ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return permanent{err}
	}
	if f.at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", f.at))
		if f.tag != "" {
			// A file that has changed meanwhile comes whole, and is noticed.
			req.Header.Set("If-Range", f.tag)
		}
	}
	resp, err := f.Client.Do(req)
	if err != nil {
		return fmt.Errorf("fetch %s: %w", f.URL, err)
	}
	switch {
	case f.at == 0 && resp.StatusCode == http.StatusOK:
		f.size, f.tag = resp.ContentLength, resp.Header.Get("ETag")
	case f.at > 0 && resp.StatusCode == http.StatusPartialContent:
		var first, last, size int64
		_, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size)
		if err != nil || first != f.at || f.size >= 0 && size != f.size {
			resp.Body.Close()
			return permanent{fmt.Errorf("fetch %s: the server answers with the range %q; want it from byte %d", f.URL, resp.Header.Get("Content-Range"), f.at)}
		}
	case f.at > 0 && resp.StatusCode == http.StatusOK:
		// It cannot resume, or the file has changed, which its hash will tell.
		if _, err := io.CopyN(io.Discard, resp.Body, f.at); err != nil {
			resp.Body.Close()
			return fmt.Errorf("fetch %s: cut again: %w", f.URL, err)
		}
	default:
		resp.Body.Close()
		err := fmt.Errorf("fetch %s: the server answers %s", f.URL, resp.Status)
		if resp.StatusCode >= 500 {
			return err
		}
		return permanent{err}
	}
	f.body = resp.Body
	return nil
}

// again waits before another try, or returns why there is none.
func (f *Fetch) again(err error) error {
	var p permanent
	if errors.As(err, &p) {
		return p.error
	}
	f.failed++
	if f.failed > f.Tries {
		return fmt.Errorf("given up after %d tries: %w", f.Tries, err)
	}
	pause := min(f.Pause<<(f.failed-1), time.Minute)
	f.Say("Trying again in %s: %v.", pause, err)
	select {
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-time.After(pause):
		return nil
	}
}
