package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// explain turns the error of a call into one that says what to do.
func (c *Client) explain(err error, limit time.Duration) *Error {
	st := status.Convert(err)
	said := clean(st.Message())
	e := &Error{Err: err}
	switch st.Code() {
	case codes.Unavailable:
		if stage, cause := c.link.failure(); cause != nil {
			return c.explainLink(stage, cause, limit)
		}
		e.Cause, e.Message = ErrLost, "the connection broke during the call ("+said+"); the node may be restarting, try again"
	case codes.DeadlineExceeded:
		return explainTimeout(c.link.now(), err, limit)
	case codes.Canceled:
		e.Cause, e.Message, e.Err = ErrCanceled, "interrupted before the node answered", errors.Join(err, context.Canceled)
	case codes.PermissionDenied:
		e.Cause, e.Message = ErrPermission, said+"; use a bundle with that role"
	case codes.Unauthenticated:
		e.Cause, e.Message = ErrClientRefused, said+"; use a bundle of this node that is in force"
	case codes.InvalidArgument:
		e.Cause, e.Message = ErrUnknownKind, said
	case codes.Unimplemented:
		e.Cause, e.Message = ErrUnimplemented, "the node does not know this call ("+said+"); it is older than this program, upgrade it"
	case codes.FailedPrecondition:
		e.Cause, e.Message = ErrBusy, said+"; wait for that to end"
	default:
		e.Cause, e.Message = ErrNode, fmt.Sprintf("the node answers %s: %s", st.Code(), said)
	}
	return e
}

// explainLink is for connections that came to nothing.
func (c *Client) explainLink(at stage, err error, limit time.Duration) *Error {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return explainLookup(dns, err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return explainTimeout(at, err, limit)
	}
	switch at {
	case dialing:
		return explainDial(err)
	case handshaking:
		if e := c.explainCertificate(err); e != nil {
			return e
		}
	}
	if e := c.explainAlert(err); e != nil {
		return e
	}
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &header):
		return &Error{Cause: ErrNotMachined, Err: err, Message: "what answers there does not speak TLS, so it is no machined node; check the address and the port"}
	case at == handshaking && hungUp(err):
		return &Error{Cause: ErrNotMachined, Err: err, Message: "it took the connection and hung up before a TLS handshake, so it is no machined node, or one that is stopping; check the address and the port"}
	case at == admitting && hungUp(err):
		return &Error{Cause: ErrClientRefused, Err: err, Message: fmt.Sprintf("the node hung up after it had seen the client certificate %s; it may be stopping, or refuse the certificate: its console says", c.clientFile())}
	}
	return &Error{Cause: ErrNotMachined, Err: err, Message: fmt.Sprintf("no TLS 1.3 connection for gRPC comes about (%s), so it is no machined node; check the address and the port", clean(err.Error()))}
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func explainLookup(dns *net.DNSError, err error) *Error {
	if dns.IsNotFound {
		return &Error{Cause: ErrUnknownHost, Err: err, Message: fmt.Sprintf("there is no host %s; check the name, or give the node's IP address", clean(dns.Name))}
	}
	return &Error{Cause: ErrUnknownHost, Err: err, Message: fmt.Sprintf("looking up the host %s failed (%s); check this computer's name server, or give the node's IP address", clean(dns.Name), clean(dns.Err))}
}

func explainDial(err error) *Error {
	reason := err
	// Below net.OpError is what the system says, without the address again.
	var errno syscall.Errno
	if errors.As(err, &errno) {
		reason = errno
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return &Error{Cause: ErrUnreachable, Err: err, Message: "connection refused; the host is up, but no API is there: check the address and the port, or wait for the node to boot"}
	}
	return &Error{Cause: ErrUnreachable, Err: err, Message: fmt.Sprintf("%s; check the address, the cable and that the node is on", clean(reason.Error()))}
}

// explainTimeout is for what took too long, by how far the connection had come.
func explainTimeout(at stage, err error, limit time.Duration) *Error {
	e := &Error{Cause: ErrTimeout, Err: errors.Join(err, context.DeadlineExceeded)}
	switch at {
	case dialing:
		e.Message = fmt.Sprintf("no answer within %s; check the address, that the node is on, and that no firewall is between", limit)
	case handshaking, admitting:
		e.Message = fmt.Sprintf("something takes the connection and says nothing within %s; it is no machined node, or one whose connections are all taken", limit)
	default:
		e.Message = fmt.Sprintf("the node is connected and did not answer the call within %s; try again with a longer time-out", limit)
	}
	return e
}

// explainCertificate is for what this side holds against the node's
// certificate; nil for other errors.
func (c *Client) explainCertificate(err error) *Error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		issuer := "unknown"
		if unknown.Cert != nil {
			issuer = quote(unknown.Cert.Issuer.CommonName)
		}
		return &Error{Cause: ErrForeignNode, Err: err, Message: fmt.Sprintf("the node's certificate is of the CA %s and not of the bundle's, %s (%s); use the bundle of this node, or check that the address is the node's",
			issuer, quote(c.bundle.CACert.Subject.CommonName), c.caFile())}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		now := c.options.Now()
		return &Error{Cause: ErrNodeCertTime, Err: err, Message: fmt.Sprintf("the node's certificate %s, and this computer's clock says %s; set the clock, or give the node a new certificate",
			outOfTime(invalid.Cert, now), stamp(now))}
	case errors.As(err, &name):
		return &Error{Cause: ErrNodeName, Err: err, Message: fmt.Sprintf("the node's certificate is not for the server name %s; leave the server name out, or check that the address is the node's", quote(name.Host))}
	}
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return &Error{Cause: ErrForeignNode, Err: err, Message: fmt.Sprintf("the node's certificate is not good for a node (%s); check that the address is the node's", clean(verification.Err.Error()))}
	}
	return nil
}
