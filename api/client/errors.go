package client

import (
	"errors"
	"strconv"
	"strings"
	"unicode"

	"machined/reconcile/resource"
)

// Cause is what kept a call from succeeding. Every *Error matches one with
// errors.Is.
type Cause string

// Error returns the cause in words.
func (c Cause) Error() string { return string(c) }

const (
	// ErrEndpoint: the endpoint is not one.
	ErrEndpoint = Cause("malformed endpoint")
	// ErrUnreachable: nothing takes connections at the address.
	ErrUnreachable = Cause("node unreachable")
	// ErrUnknownHost: the host name is not found.
	ErrUnknownHost = Cause("host name not found")
	// ErrTimeout: the node did not answer in time.
	ErrTimeout = Cause("time-out")
	// ErrLost: the connection broke during the call.
	ErrLost = Cause("connection lost")
	// ErrNotMachined: what answers is no machined.
	ErrNotMachined = Cause("not a machined node")
	// ErrForeignNode: the node's certificate is not of the bundle's CA.
	ErrForeignNode = Cause("node certificate of another CA")
	// ErrNodeName: the node's certificate is for another name.
	ErrNodeName = Cause("node certificate for another name")
	// ErrNodeCertTime: the node's certificate has expired or is not valid yet.
	ErrNodeCertTime = Cause("node certificate out of its time")
	// ErrClientCertTime: the client's certificate has expired or is not valid
	// yet, by the clock of one of the two sides.
	ErrClientCertTime = Cause("client certificate out of its time")
	// ErrClientRefused: the node refuses the client's certificate.
	ErrClientRefused = Cause("client certificate refused")
	// ErrPermission: the certificate's role does not allow the call.
	ErrPermission = Cause("permission denied")
	// ErrUnknownKind: the node has no such kind of resource.
	ErrUnknownKind = Cause("unknown kind")
	// ErrNamespace: the kind is not in the namespace.
	ErrNamespace = Cause("wrong namespace")
	// ErrUnimplemented: the node is older than the call.
	ErrUnimplemented = Cause("not implemented by the node")
	// ErrBusy: the node refuses because of what it is doing already.
	ErrBusy = Cause("node busy")
	// ErrCanceled: the caller gave up.
	ErrCanceled = Cause("canceled")
	// ErrUnknownService: the node has no such service.
	ErrUnknownService = Cause("unknown service")
	// ErrService: the service does not do what was asked.
	ErrService = Cause("service failed")
	// ErrNode: the node took the call and failed.
	ErrNode = Cause("failure inside the node")
)

// Error is why a call failed: what was tried, on what, why it failed, and what
// to do.
type Error struct {
	Op      string // such as "reboot"
	Target  string // host:port
	Cause   Cause
	Message string
	Err     error // what it was found out from; nil if that says no more
}

// Error returns one sentence.
func (e *Error) Error() string { return e.Op + " " + e.Target + ": " + e.Message }

// Unwrap lets errors.Is and errors.As see the cause and what is below it.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Err}
}

// refineList tells the two reasons apart that a node refuses a listing for.
func refineList(err error, kind, namespace string) error {
	var e *Error
	if !errors.As(err, &e) || e.Cause != ErrUnknownKind {
		return err
	}
	if k, ok := resource.KindByName(kind); ok && namespace != "" && namespace != k.Namespace() {
		e.Cause = ErrNamespace
	}
	return err
}

// clean makes a text from elsewhere safe for a terminal, on one line.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}

func quote(s string) string { return strconv.Quote(s) }
