package upgrade

// Reason is why a node went down.
type Reason string

const (
	ByUser     Reason = "user"
	ByUpgrade  Reason = "upgrade"
	ByRollback Reason = "rollback"
	ByReset    Reason = "reset"
	ByInstall  Reason = "install" // to boot from the disk that was written
	ByWatchdog Reason = "watchdog"
	ByPanic    Reason = "panic"   // of the kernel
	ByFailure  Reason = "failure" // of machined, which has restarted the machine
	// ByPower is an end without a word.
	ByPower Reason = "power"
)
