package pki

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// NodeTLS returns the server's settings: TLS 1.3 (RFC 8446), and a client
// certificate from the node's authority is required. The time for the check is
// asked from clock at each handshake, since the node's clock may be stepped.
//
// Session tickets are off: a resumed session would outlive its certificate, and
// what the server keeps for each client stays constant.
func NodeTLS(node *Node, clock func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{certificate(node.Identity)},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              pool(node.CACert),
		Time:                   clock,
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2"},
	}
}

// ClientTLS returns a client's settings: TLS 1.3, the bundle's authority and no
// other, and the server must have serverName in its certificate ("" stands for
// NodeServerName).
func ClientTLS(bundle *Bundle, serverName string) *tls.Config {
	if serverName == "" {
		// tls.Dial and gRPC would fill an empty name with the address.
		serverName = NodeServerName
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate(bundle.Identity)},
		RootCAs:      pool(bundle.CACert),
		ServerName:   serverName,
		NextProtos:   []string{"h2"},
	}
}

func certificate(id Identity) tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{id.Cert.Raw}, PrivateKey: id.Key, Leaf: id.Cert}
}

func pool(ca *x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(ca)
	return p
}
