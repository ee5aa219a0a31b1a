// Package netboot is a node's side of a boot over the network: it asks the server
// that the node was booted by for a config and an identity, and tells it how far
// the node has come. It keeps no state and starts nothing; whoever calls it waits.
package netboot

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"machined/images/netboot"
)

const (
	// maxAnswer bounds what a server may answer, in bytes.
	maxAnswer = 1 << 20
	// maxToken and maxSession bound them in hex digits.
	maxToken, maxSession = 64, 128
	// maxMessage bounds what of a server's message is shown, in bytes.
	maxMessage = 300
	// callTime bounds a call to the server, answer included.
	callTime = 30 * time.Second
	// heldFor is how long to wait before the next try when a server that holds
	// the node does not say, and longestHold the most that it may ask for.
	heldFor, longestHold = 5 * time.Second, 5 * time.Minute
)

// What goes between a node and its server is described once, for both.
type (
	Facts     = netboot.Facts
	Identity  = netboot.Identity
	Enrolment = netboot.Enrolment
	Status    = netboot.Status
)

// HeldError says that the node has to be accepted by a person first.
type HeldError struct {
	Message string
	After   time.Duration // when to ask again
}

func (e *HeldError) Error() string { return "the netboot server holds the node: " + e.Message }

// RefusedError says that the server does not want the node.
type RefusedError struct {
	Code    int // of HTTP
	Message string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the netboot server refuses the node (%d): %s", e.Code, e.Message)
}

// Client calls one server. Its methods may be used by one goroutine at a time.
type Client struct {
	base  string // https://IP:PORT
	token string
	nonce string
	http  *http.Client
}

// New returns a client of the server at address, which is the value of the
// argument machined.netboot, with that of machined.token; ca is the PEM of the one
// authority that may have signed the server. The clock, which is asked at each
// handshake, may be behind. An error does not hold the token.
func New(address, token string, ca []byte, clock func() time.Time) (*Client, error) {
	base, host, err := parseServer(address)
	if err != nil {
		return nil, err
	}
	if err := checkHex(token, maxToken); err != nil {
		return nil, fmt.Errorf("read the kernel's argument machined.token: %w; the netboot server writes it, start the node by it again", err)
	}
	settings, err := serverTLS(ca, host, clock)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, 32)
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("draw the nonce of this boot: %w", err)
	}
	return &Client{base: base, token: token, nonce: hex.EncodeToString(nonce), http: &http.Client{
		Timeout: callTime,
		// A redirection would lead to a server that was not named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig: settings, TLSHandshakeTimeout: callTime, DisableKeepAlives: true,
			MaxResponseHeaderBytes: 16 << 10, ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		},
	}}, nil
}

// Server returns the server's address, for people.
func (c *Client) Server() string { return c.base }

// parseServer accepts https://IP:PORT and nothing around it.
func parseServer(address string) (base string, host netip.Addr, err error) {
	fail := func(why string) (string, netip.Addr, error) {
		return "", netip.Addr{}, fmt.Errorf("read the kernel's argument machined.netboot=%.100q: %s; want https://IP:PORT", address, why)
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("it is no URL")
	}
	if u.Scheme != "https" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return fail("it is not the root of an https server")
	}
	at, err := netip.ParseAddrPort(u.Host)
	if err != nil || at.Port() == 0 {
		return fail("it names no IP address and port") // there may be no DNS
	}
	return "https://" + at.String(), at.Addr(), nil
}

func checkHex(s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("it has %d characters, and %d are the most", len(s), most)
	}
	for i := range len(s) {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return errors.New("it is not all hex digits")
		}
	}
	return nil
}

// Enroll asks the server for what the node is to be. A *HeldError and a
// *RefusedError are its answers; any other error is of the way to it. The same
// nonce goes with each call of a boot, so that a server which has answered once,
// and was not heard, knows the node again.
func (c *Client) Enroll(ctx context.Context, f Facts) (Enrolment, error) {
	request := netboot.Request{Token: c.token, Nonce: c.nonce, Facts: f}
	answer, body, err := c.post(ctx, "/node/enroll", request)
	if err != nil {
		return Enrolment{}, fmt.Errorf("enroll at %s: %w", c.base, err)
	}
	e, err := parseAnswer(answer.StatusCode, answer.Header.Get("Retry-After"), body)
	var held *HeldError
	var refused *RefusedError
	if err != nil && !errors.As(err, &held) && !errors.As(err, &refused) {
		err = fmt.Errorf("enroll at %s: %w", c.base, err)
	}
	return e, err
}

// Tell tells the server how far the node has come.
func (c *Client) Tell(ctx context.Context, session string, s Status) error {
	request := netboot.Report{Session: session, Status: s}
	answer, _, err := c.post(ctx, "/node/status", request)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("it answers %s", http.StatusText(answer.StatusCode))
	}
	if err != nil {
		return fmt.Errorf("tell %s of the phase %s: %w", c.base, s.Phase, err)
	}
	return nil
}

// Image returns a client for what the node is installed from, and its URL. It sends
// the session along, and has no time-out: the caller's context ends it.
func (c *Client) Image(session string) (*http.Client, string) {
	return &http.Client{CheckRedirect: c.http.CheckRedirect, Transport: bearer{c.http.Transport, session}}, c.base + "/node/image"
}

// bearer sends a session with each request.
type bearer struct {
	http.RoundTripper
	session string
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.session)
	return b.RoundTripper.RoundTrip(r)
}

func (c *Client) post(ctx context.Context, path string, request any) (*http.Response, []byte, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nil, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the caller names the server
		}
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > maxAnswer {
		return nil, nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return answer, body, nil
}

// parseAnswer reads an answer to Enroll. Errors do not quote the body, which may
// hold a key.
func parseAnswer(code int, retryAfter string, body []byte) (Enrolment, error) {
	switch code {
	case http.StatusOK:
		return parseEnrolment(body)
	case http.StatusAccepted:
		return Enrolment{}, &HeldError{Message: message(body), After: holdTime(retryAfter)}
	case http.StatusForbidden, http.StatusGone:
		return Enrolment{}, &RefusedError{Code: code, Message: message(body)}
	}
	return Enrolment{}, fmt.Errorf("it answers %d %s", code, http.StatusText(code))
}

// parseEnrolment passes over keys that it does not know: a server may be newer.
func parseEnrolment(body []byte) (Enrolment, error) {
	var e Enrolment
	if len(body) > maxAnswer {
		return e, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return Enrolment{}, errors.New("its answer is no JSON of an enrolment")
	}
	if err := checkHex(e.Session, maxSession); err != nil || e.Session == "" {
		return Enrolment{}, errors.New("its answer has no session of hex digits")
	}
	if i := e.Identity; i != nil && (i.CA == "" || i.Cert == "" || i.Key == "") {
		return Enrolment{}, errors.New("its answer has an identity without ca, cert or key")
	}
	return e, nil
}

// message is what a server says to people, in one line of printable characters.
func message(body []byte) string {
	var m struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &m) != nil || m.Message == "" {
		return "it does not say why"
	}
	line := make([]rune, 0, maxMessage)
	for _, r := range m.Message {
		if len(line) == maxMessage {
			break
		}
		if !strconv.IsPrint(r) {
			r = ' '
		}
		line = append(line, r)
	}
	return string(line)
}

// holdTime reads the seconds of Retry-After (RFC 9110, 10.2.3).
func holdTime(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds < 0 {
		return heldFor
	}
	return min(max(time.Duration(min(seconds, 3600))*time.Second, time.Second), longestHold)
}
