package hal

// Power ends or restarts the machine, as reboot(2) does. The caller has synced
// and unmounted before: nothing is flushed here.
type Power interface {
	// Restart resets the machine. A non-empty arg is handed to the firmware
	// driver (LINUX_REBOOT_CMD_RESTART2); on a Raspberry Pi "0 tryboot" sets
	// the one-shot flag. It returns only with an error.
	Restart(arg string) error
	// PowerOff switches the machine off, or halts it where that is impossible.
	// It returns only with an error.
	PowerOff() error
	// LoadKernel has the kernel keep another kernel and its initramfs, files of
	// this machine, for StartKernel (kexec_file_load(2)). arguments are the new
	// kernel's command line. ErrUnsupported where the kernel cannot.
	LoadKernel(kernel, initramfs, arguments string) error
	// StartKernel jumps into the kernel that was loaded: no firmware runs in
	// between, and devices are where the old kernel left them. It returns only
	// with an error; ErrNotFound if none is loaded.
	StartKernel() error
	// CatchCtrlAltDel makes the kernel send SIGINT to PID 1 instead of
	// resetting at once.
	CatchCtrlAltDel() error
}
