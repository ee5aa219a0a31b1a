package netboot

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"machined/images/netboot"
)

// serverTLS returns the settings for calls to the server at host: TLS 1.3, and a
// certificate of the authority in ca and no other, for the server's IP address or
// netboot.ServerName.
func serverTLS(ca []byte, host netip.Addr, clock func() time.Time) (*tls.Config, error) {
	authority, err := parseCA(ca)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the netboot server's CA in the initramfs; build it again: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// The check of crypto/tls knows one name and the present time alone;
		// VerifyConnection does all of it.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			return verify(s.PeerCertificates, authority, host, clock())
		},
	}, nil
}

func parseCA(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it is no certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err == nil && !cert.IsCA {
		err = errors.New("it is no authority's")
	}
	return cert, err
}

// verify checks the server's certificate. A node whose clock was never set stands
// at the time of its build: a certificate that begins later is taken to begin
// now. One that has ended has ended.
func verify(chain []*x509.Certificate, authority *x509.Certificate, host netip.Addr, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("check the netboot server: it shows no certificate")
	}
	leaf := chain[0]
	for _, c := range []*x509.Certificate{authority, leaf} {
		if now.Before(c.NotBefore) {
			now = c.NotBefore
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return fmt.Errorf("check the netboot server's certificate; its CA must be the one that the initramfs was built with: %w", err)
	}
	if leaf.VerifyHostname(netboot.ServerName) != nil && leaf.VerifyHostname(host.String()) != nil {
		return fmt.Errorf("check the netboot server's certificate: it is for neither %s nor %s", netboot.ServerName, host)
	}
	return nil
}
