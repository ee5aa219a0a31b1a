// Package pki is the node's public key infrastructure: one certificate
// authority, the node's server certificate, and client certificates that carry
// roles. All keys are ECDSA P-256, all certificates X.509 version 3 (RFC 5280).
//
// The server's name in its certificate is an identity and not a place: a client
// asks for NodeServerName whatever address it dials, so that a board may change
// its address without a new certificate.
package pki
