package pki

import (
	"crypto/x509"
	"slices"
)

// Role is what a client may do. Roles are stored in the organizations (O) of a
// client certificate's subject.
type Role string

const (
	// RoleReader may see everything that is no secret.
	RoleReader Role = "os:reader"
	// RoleOperator may also reboot, shut down and restart.
	RoleOperator Role = "os:operator"
	// RoleAdmin may do everything.
	RoleAdmin Role = "os:admin"
)

// rank orders the roles; each includes those of a lower rank. It is 0 for what
// is no role.
func (r Role) rank() int {
	switch r {
	case RoleReader:
		return 1
	case RoleOperator:
		return 2
	case RoleAdmin:
		return 3
	}
	return 0
}

// RoleSet is the set of roles of one certificate.
type RoleSet []Role

// Roles returns the roles in the certificate's subject. Other organizations are
// passed over, so that a later version may add roles. A nil certificate has no
// roles.
func Roles(cert *x509.Certificate) RoleSet {
	if cert == nil {
		return nil
	}
	var set RoleSet
	for _, o := range cert.Subject.Organization {
		if r := Role(o); r.rank() > 0 && !slices.Contains(set, r) {
			set = append(set, r)
		}
	}
	return set
}

// Allows reports whether a role of the set is least or includes it. Nothing
// allows a least that is no role: a misspelt requirement locks, it does not
// open.
func (s RoleSet) Allows(least Role) bool {
	if least.rank() == 0 {
		return false
	}
	return slices.ContainsFunc(s, func(r Role) bool { return r.rank() >= least.rank() })
}
