package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"machined/api/pki"
)

// checkBundle finds out before dialing what the node would refuse.
func (c *Client) checkBundle() error {
	now, cert := c.options.Now(), c.bundle.Cert
	if !now.Before(cert.NotBefore) && !now.After(cert.NotAfter) {
		return nil
	}
	return &Error{
		Op: "connect to", Target: c.endpoint, Cause: ErrClientCertTime,
		Message: fmt.Sprintf("the client certificate %s %s, and this computer's clock says %s; set the clock, or get a new bundle",
			c.clientFile(), outOfTime(cert, now), stamp(now)),
	}
}

// Alerts of RFC 8446, section 6.2, that a server ends a handshake with.
const (
	alertBadCertificate         = tls.AlertError(42)
	alertUnsupportedCertificate = tls.AlertError(43)
	alertCertificateRevoked     = tls.AlertError(44)
	alertCertificateExpired     = tls.AlertError(45)
	alertCertificateUnknown     = tls.AlertError(46)
	alertUnknownCA              = tls.AlertError(48)
	alertAccessDenied           = tls.AlertError(49)
	alertProtocolVersion        = tls.AlertError(70)
	alertCertificateRequired    = tls.AlertError(116)
)

// alertOf returns the alert that the other side sent. crypto/tls keeps its type
// to itself, but gives AlertError the same texts.
func alertOf(err error) (tls.AlertError, bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}
	for a := range tls.AlertError(255) {
		if a.Error() == op.Err.Error() {
			return a, true
		}
	}
	return 0, false
}

// explainAlert is for what the node holds against this side; nil for other
// errors.
func (c *Client) explainAlert(err error) *Error {
	alert, ok := alertOf(err)
	if !ok {
		return nil
	}
	cert := c.bundle.Cert
	switch alert {
	case alertCertificateExpired:
		return &Error{Cause: ErrClientCertTime, Err: err, Message: fmt.Sprintf("the node says that the client certificate %s has expired or is not valid yet; it is valid from %s to %s, so that the node's clock or this computer's (%s) is wrong",
			c.clientFile(), stamp(cert.NotBefore), stamp(cert.NotAfter), stamp(c.options.Now()))}
	case alertUnknownCA, alertCertificateRequired:
		// Asked for certificates of other CAs alone, crypto/tls sends none, and
		// the node misses one.
		return &Error{Cause: ErrClientRefused, Err: err, Message: fmt.Sprintf("the node does not know the CA %s of the client certificate %s; use the bundle of this node",
			quote(cert.Issuer.CommonName), c.clientFile())}
	case alertBadCertificate, alertUnsupportedCertificate, alertCertificateRevoked, alertCertificateUnknown, alertAccessDenied:
		return &Error{Cause: ErrClientRefused, Err: err, Message: fmt.Sprintf("the node refuses the client certificate %s (%s); use the bundle of this node",
			c.clientFile(), alert)}
	case alertProtocolVersion:
		return &Error{Cause: ErrNotMachined, Err: err, Message: "what answers there does not speak TLS 1.3, so it is no machined node; check the address and the port"}
	}
	return &Error{Cause: ErrNotMachined, Err: err, Message: fmt.Sprintf("what answers there ends the TLS handshake (%s), so it is no machined node; check the address and the port", alert)}
}

// outOfTime says which end of its validity a certificate is beyond.
func outOfTime(cert *x509.Certificate, now time.Time) string {
	if now.Before(cert.NotBefore) {
		return "is not valid before " + stamp(cert.NotBefore)
	}
	return "expired on " + stamp(cert.NotAfter)
}

// stamp is a time to the minute: certificates are not more exact than clocks.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func (c *Client) clientFile() string {
	return filepath.Join(c.options.BundleDir, pki.ClientCertFile)
}

func (c *Client) caFile() string {
	return filepath.Join(c.options.BundleDir, pki.CACertFile)
}
