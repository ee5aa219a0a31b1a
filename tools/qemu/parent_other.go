//go:build !linux

package qemu

import "syscall"

// dieWithParent is Linux's alone; elsewhere Close has to be called.
func dieWithParent() *syscall.SysProcAttr { return nil }
