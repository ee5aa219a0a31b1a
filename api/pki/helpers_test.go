package pki

import (
	"crypto/rand"
	"testing"
	"time"
)

// made is when the certificates of the tests are issued.
func made() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func at(d time.Duration) func() time.Time {
	return func() time.Time { return made().Add(d) }
}

func newCA(t testing.TB) *CA {
	t.Helper()
	ca, err := NewCA("test CA", made(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func newNode(t testing.TB, ca *CA) *Node {
	t.Helper()
	n, err := ca.IssueNode([]string{"board-1"}, made())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newBundle(t testing.TB, ca *CA, roles ...Role) *Bundle {
	t.Helper()
	b, err := ca.IssueClient("laptop", roles, time.Hour, made())
	if err != nil {
		t.Fatal(err)
	}
	return b
}
