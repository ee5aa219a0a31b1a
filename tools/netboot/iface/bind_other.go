//go:build !linux

package iface

import "syscall"

func bindTo(syscall.RawConn, string) error { return nil }
