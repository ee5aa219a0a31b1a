package hal

// Watchdog is a hardware timer that resets the machine unless it is fed
// (Documentation/watchdog/watchdog-api.rst of the kernel).
type Watchdog interface {
	// Start opens the device, which arms it, and asks for a timeout in
	// seconds. It returns the timeout that the hardware took, which may be
	// shorter. ErrNoDevice when there is none.
	Start(timeoutSeconds int) (int, error)
	// Feed restarts the timer. Feeding one that is not started is an error.
	Feed() error
	// Disarm stops the timer (the "magic close") and closes the device.
	Disarm() error
	// DidReset reports whether it is the watchdog that has reset the machine
	// before this boot (WDIOF_CARDRESET), as far as the hardware keeps that.
	DidReset() (bool, error)
}
