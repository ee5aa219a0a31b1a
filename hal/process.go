package hal

// ProcessSpec says what to run and how.
type ProcessSpec struct {
	// Argv is the command; Argv[0] is an absolute path.
	Argv []string
	Env  []string // KEY=VALUE
	Dir  string   // working directory; empty means "/"
	// UID and GID of the process.
	UID, GID uint32
	// Stdout and Stderr are file descriptors that the process inherits; a
	// negative one means /dev/null.
	Stdout, Stderr int
}

// ExitStatus is how a process ended.
type ExitStatus struct {
	PID    int
	Code   int // exit code, 0 to 255, when Signal is 0
	Signal int // signal number that ended it, or 0
}

// Processes starts and signals processes. Exit statuses are delivered by the
// one reaper of the program, never by waiting here.
type Processes interface {
	// Start runs spec in a session of its own, and so in a process group of
	// the same number. It returns after exec(2) has succeeded; exited is
	// called once, from another goroutine, when the process has ended. What it
	// left in its group is killed before that: a service that is started again
	// would meet its own remains.
	Start(spec ProcessSpec, exited func(ExitStatus)) (pid int, err error)
	// Signal sends a signal to the process group. ErrNotFound when it is gone.
	Signal(pid int, signal int) error
}
