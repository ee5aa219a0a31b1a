package qemu

import "syscall"

// dieWithParent has the kernel kill QEMU when the program that started it
// dies: a harness must not leave machines behind.
func dieWithParent() *syscall.SysProcAttr {
	// A group of its own keeps the terminal's Ctrl-C from QEMU: who runs the
	// machine decides what becomes of it.
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
