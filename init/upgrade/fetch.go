package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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
	// Idle is how long a server may send nothing before it counts as a cut.
	Idle time.Duration
	// Say tells of a cut.
	Say func(format string, args ...any)

	ctx    context.Context
	body   *patient // nil between two requests
	at     int64
	size   int64 // -1 while unknown
	tag    string
	failed int
}

// NewFetch returns a reader of url that lasts as long as ctx.
func NewFetch(ctx context.Context, client *http.Client, url string, say func(string, ...any)) *Fetch {
	return &Fetch{Client: client, URL: url, Pause: time.Second, Tries: 8, Idle: time.Minute, Say: say, ctx: ctx, size: -1}
}

// Shown is a URL without what may be a secret: a password, and a query.
func Shown(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return "a URL that is none"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// failure wraps an error with what was fetched. That of net/http has the whole URL.
func (f *Fetch) failure(doing string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("fetch %s: %s%w", Shown(f.URL), doing, err)
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
		if err = f.again(f.failure(fmt.Sprintf("cut after %d bytes: ", f.at), err)); err != nil {
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
	body := newPatient(f.ctx, f.Idle)
	req, err := http.NewRequestWithContext(body.ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return permanent{f.failure("", err)}
	}
	if f.at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", f.at))
		if f.tag != "" {
			// A file that has changed meanwhile comes whole, and is noticed.
			req.Header.Set("If-Range", f.tag)
		}
	}
	limit := body.expect()
	resp, err := f.Client.Do(req)
	if err != nil {
		err = body.reason(limit, err)
		body.cancel(nil)
		return f.failure("", err)
	}
	limit.Stop()
	body.ReadCloser = resp.Body
	if err := f.take(resp, body); err != nil {
		body.Close()
		return err
	}
	f.body = body
	return nil
}

// take judges an answer, and passes over what was read before.
func (f *Fetch) take(resp *http.Response, body io.Reader) error {
	switch {
	case f.at == 0 && resp.StatusCode == http.StatusOK:
		f.size, f.tag = resp.ContentLength, resp.Header.Get("ETag")
	case f.at > 0 && resp.StatusCode == http.StatusPartialContent:
		var first, last, size int64
		_, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size)
		if err != nil || first != f.at || f.size >= 0 && size != f.size {
			return permanent{f.failure("", fmt.Errorf("the server answers with the range %q; want it from byte %d", resp.Header.Get("Content-Range"), f.at))}
		}
	case f.at > 0 && resp.StatusCode == http.StatusOK:
		// It cannot resume, or the file has changed, which its hash will tell.
		if _, err := io.CopyN(io.Discard, body, f.at); err != nil {
			return f.failure("cut again: ", err)
		}
	default:
		err := f.failure("", fmt.Errorf("the server answers %s", resp.Status))
		if resp.StatusCode >= 500 {
			return err
		}
		return permanent{err}
	}
	return nil
}

// patient is the body of an answer. A server that sends nothing for too long ends
// it.
type patient struct {
	io.ReadCloser
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	idle   time.Duration
}

func newPatient(ctx context.Context, idle time.Duration) *patient {
	p := &patient{idle: idle}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// expect ends the request unless what it returns is stopped in time.
func (p *patient) expect() *time.Timer {
	return time.AfterFunc(p.idle, func() { p.cancel(fmt.Errorf("the server sent nothing for %s", p.idle)) })
}

// reason is err, or what has led to it.
func (p *patient) reason(limit *time.Timer, err error) error {
	if err != nil && !limit.Stop() {
		return context.Cause(p.ctx)
	}
	return err
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	limit := p.expect()
	defer limit.Stop()
	n, err := p.ReadCloser.Read(b)
	return n, p.reason(limit, err)
}

// Close ends the request.
func (p *patient) Close() error {
	p.cancel(nil)
	return p.ReadCloser.Close()
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
