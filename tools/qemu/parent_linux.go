package qemu

import "syscall"

// dieWithParent has the kernel kill QEMU when the program that started it
// dies: a harness must not leave machines behind.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
