//go:build !linux

package dhcp

import "syscall"

// bindTo does nothing: each packet's interface is looked at in its place.
func bindTo(syscall.RawConn, string) error { return nil }
