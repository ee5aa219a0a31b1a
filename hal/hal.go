// Package hal names every privileged surface of a board as a small interface:
// what machined asks of the kernel and the hardware, and nothing else.
//
// hal/linux holds the real drivers and hal/fake simulated ones with fault
// injection; hal/conformance runs one suite over both. This package does no
// I/O of its own and compiles with TinyGo.
package hal

// Error is a constant error, comparable with errors.Is.
type Error string

func (e Error) Error() string { return string(e) }

const (
	// ErrNoDevice says that the hardware or the device node is not there (yet).
	ErrNoDevice Error = "no such device"
	// ErrExists says that what was to be made is already there.
	ErrExists Error = "already exists"
	// ErrNotFound says that what was to be removed or read is not there.
	ErrNotFound Error = "not found"
	// ErrNotMounted says that the target is no mount point.
	ErrNotMounted Error = "not mounted"
	// ErrNoSpace says that a disk has no room left for what was asked.
	ErrNoSpace Error = "no space left on device"
	// ErrInvalid says that the kernel refuses the value, now and later.
	ErrInvalid Error = "invalid argument"
	// ErrUnsupported says that this kernel or machine cannot do it.
	ErrUnsupported Error = "not supported here"
)
