package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"machined/api/pki"
	"machined/images/netboot"
)

// clientLife is how long the client certificate in the bundle is valid.
const clientLife = 365 * 24 * time.Hour

// netbootPKI returns the certificate in PEM of the directory's CA. The CA and the
// client bundle are made once; a part of one is an error, since another CA would
// lock the owner of the nodes out.
func netbootPKI(dir string, stderr io.Writer, now time.Time) ([]byte, error) {
	caDir, bundleDir := filepath.Join(dir, netboot.PKIDir), filepath.Join(dir, netboot.BundleDir)
	bundle, bundleErr := pki.LoadBundle(bundleDir)
	if bundleErr != nil && !errors.Is(bundleErr, pki.ErrNone) {
		return nil, bundleErr
	}
	ca, err := pki.LoadCA(caDir)
	if errors.Is(err, pki.ErrNone) && bundleErr == nil {
		return nil, fmt.Errorf("make a CA in %s: %s holds a client bundle of another one; restore that CA, or remove the bundle", caDir, bundleDir)
	}
	if errors.Is(err, pki.ErrNone) {
		ca, err = newNetbootCA(caDir, now)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case bundleErr != nil:
		if bundle, err = ca.IssueClient("admin", []pki.Role{pki.RoleAdmin}, clientLife, now); err == nil {
			err = pki.WriteBundle(bundleDir, bundle)
		}
		if err != nil {
			return nil, err
		}
	case !bundle.CACert.Equal(ca.Cert):
		return nil, fmt.Errorf("the client bundle in %s is of another CA than the one in %s; remove it for a new one", bundleDir, caDir)
	case !now.Before(bundle.Cert.NotAfter):
		fmt.Fprintf(stderr, "warning: the client certificate in %s ended on %s; remove the directory for a new one\n", bundleDir, bundle.Cert.NotAfter.Format(time.DateOnly))
	}
	return os.ReadFile(filepath.Join(caDir, pki.CACertFile))
}

func newNetbootCA(dir string, now time.Time) (*pki.CA, error) {
	ca, err := pki.NewCA("machined netboot", now, rand.Reader)
	if err != nil {
		return nil, err
	}
	return ca, pki.WriteCA(dir, ca)
}
