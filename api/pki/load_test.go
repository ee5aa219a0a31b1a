package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// setOf returns the files of a node as a file system that a test can spoil.
func setOf(t testing.TB, n *Node) fstest.MapFS {
	t.Helper()
	key, err := keyFile(NodeKeyFile, n.Key)
	if err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{}
	for _, f := range []file{key, certFile(NodeCertFile, n.Cert), certFile(CACertFile, n.CACert)} {
		fsys[f.name] = &fstest.MapFile{Data: f.data, Mode: f.mode}
	}
	return fsys
}

func TestLoadErrors(t *testing.T) {
	ca, foreign := newCA(t), newCA(t)
	node, other, bundle := newNode(t, ca), newNode(t, ca), newBundle(t, ca, RoleAdmin)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	nameless, err := ca.issue(&x509.Certificate{DNSNames: []string{"x"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, made(), longLife)
	if err != nil {
		t.Fatal(err)
	}
	key := func(name string, k *ecdsa.PrivateKey) []byte {
		f, err := keyFile(name, k)
		if err != nil {
			t.Fatal(err)
		}
		return f.data
	}
	nodeCert := certFile("", node.Cert).data
	for _, tt := range []struct {
		name, file string
		data       []byte
		want       string
	}{
		{"empty", NodeKeyFile, nil, "use node.key of the PKI in d: the file is empty, probably a write that was cut short; restore it"},
		{"garbage", NodeCertFile, []byte("hello"), "use node.crt of the PKI in d: it has no PEM block; restore the file"},
		{"garbage CA", CACertFile, []byte("hello"), "use ca.crt of the PKI in d: it has no PEM block; restore the file"},
		{"cut short", NodeCertFile, nodeCert[:len(nodeCert)/2], "use node.crt of the PKI in d: it has no PEM block; restore the file"},
		{"zeros behind", NodeCertFile, append(bytes.Clone(nodeCert), 0, 0), `use node.crt of the PKI in d: something follows the PEM block "CERTIFICATE"; keep one block a file`},
		{"two certificates", CACertFile, append(certFile("", ca.Cert).data, nodeCert...), `use ca.crt of the PKI in d: something follows the PEM block "CERTIFICATE"; keep one block a file`},
		{"key for certificate", NodeCertFile, key(NodeKeyFile, node.Key), `use node.crt of the PKI in d: it has a PEM block "PRIVATE KEY"; want "CERTIFICATE"`},
		{"no DER", NodeCertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}), "use node.crt of the PKI in d: read the certificate: x509: malformed certificate; restore the file"},
		{"no key DER", NodeKeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), "use node.key of the PKI in d: read the private key: "},
		{"other curve", NodeKeyFile, key(NodeKeyFile, p384), "use node.key of the PKI in d: the key is not ECDSA P-256; issue a new certificate"},
		{"key of another", NodeKeyFile, key(NodeKeyFile, other.Key), "use node.key of the PKI in d: it is not the key of node.crt; use files of one set"},
		{"foreign CA", CACertFile, certFile("", foreign.Cert).data, "use node.crt of the PKI in d: it is not signed by ca.crt: x509: "},
		{"leaf as CA", CACertFile, nodeCert, "use ca.crt of the PKI in d: it is no certificate of an authority; use the one that signed the others"},
		{"client's certificate", NodeCertFile, certFile("", bundle.Cert).data, "use node.crt of the PKI in d: it is not for a server (extended key usage); issue one that is"},
		{"embedded key of another", CAKeyFile, key(CAKeyFile, foreign.Key), "use ca.key of the PKI in d: it is not the key of ca.crt; use files of one set"},
		{"too long", NodeKeyFile, bytes.Repeat([]byte("x"), 70000), "read node.key of the PKI in d: it has more than 65536 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := setOf(t, node)
			fsys[tt.file] = &fstest.MapFile{Data: tt.data, Mode: 0o600}
			n, err := LoadNodeFS(fsys, "d")
			if n != nil || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("LoadNodeFS = %v, %v; want error %s", n, err, tt.want)
			}
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v could be taken for an empty directory", err)
			}
		})
	}
	const want = "use node.crt of the PKI in d: it is not for the name node.machined.internal; issue a new one"
	if _, err := LoadNodeFS(setOf(t, &Node{Identity: nameless, CACert: ca.Cert}), "d"); err == nil || err.Error() != want {
		t.Errorf("without the name: %v; want %s", err, want)
	}
	dir := setOf(t, node)
	dir[NodeKeyFile] = &fstest.MapFile{Mode: fs.ModeDir}
	if _, err := LoadNodeFS(dir, "d"); err == nil || !strings.HasPrefix(err.Error(), "read node.key of the PKI in d: it is d") {
		t.Errorf("directory as key: %v; want an error that names it", err)
	}
}

// A bundle must be for a client; openssl's form of a key is fine.
func TestLoadBundleChecks(t *testing.T) {
	ca := newCA(t)
	node, bundle := newNode(t, ca), newBundle(t, ca, RoleAdmin)
	fsys := func(id Identity) fstest.MapFS {
		der, err := x509.MarshalECPrivateKey(id.Key)
		if err != nil {
			t.Fatal(err)
		}
		return fstest.MapFS{
			CACertFile:     {Data: certFile("", ca.Cert).data},
			ClientCertFile: {Data: certFile("", id.Cert).data},
			ClientKeyFile:  {Data: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})},
		}
	}
	if _, err := LoadBundleFS(fsys(bundle.Identity), "d"); err != nil {
		t.Errorf("LoadBundleFS = %v; want no error", err)
	}
	_, err := LoadBundleFS(fsys(node.Identity), "d")
	const want = "use client.crt of the PKI in d: it is not for a client (extended key usage); issue one that is"
	if err == nil || err.Error() != want {
		t.Errorf("LoadBundleFS of a node's certificate = %v; want %s", err, want)
	}
}

func FuzzLoad(f *testing.F) {
	ca := newCA(f)
	node := newNode(f, ca)
	good := setOf(f, node)
	f.Add(good[CACertFile].Data, good[NodeCertFile].Data, good[NodeKeyFile].Data)
	f.Add([]byte(""), []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte("\x00"))
	f.Add(good[NodeCertFile].Data, good[CACertFile].Data, good[NodeKeyFile].Data)
	f.Fuzz(func(t *testing.T, caCert, cert, key []byte) {
		fsys := fstest.MapFS{CACertFile: {Data: caCert}, NodeCertFile: {Data: cert}, NodeKeyFile: {Data: key}}
		n, err := LoadNodeFS(fsys, "d")
		if err != nil {
			if n != nil || errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("LoadNodeFS = %v, %v; want an error that does not lead to new keys", n, err)
			}
			return
		}
		// What is accepted must work.
		if err := n.Cert.CheckSignatureFrom(n.CACert); err != nil || !n.Key.PublicKey.Equal(n.Cert.PublicKey) {
			t.Fatalf("accepted a set that does not belong together: %v", err)
		}
		_ = NodeTLS(n, at(0))
	})
}
