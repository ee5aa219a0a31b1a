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
	// Cgroup is the path of the cgroup in which it begins, see Cgroups; empty
	// means that of the caller.
	Cgroup string
	// NoNewPrivs keeps exec(2) from granting what the process has not, such as
	// by set-user-ID programs (prctl(2), PR_SET_NO_NEW_PRIVS).
	NoNewPrivs bool
	// Bounded limits the process, root too, to Capabilities, which a user other
	// than root then has as well: bit n is capability n of capabilities(7).
	// Without, root has all and others have none.
	Bounded      bool
	Capabilities uint64
	// OOMScoreAdj is from -1000, never killed for want of memory, to 1000, killed
	// first (proc_pid_oom_score_adj(5)).
	OOMScoreAdj int
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
	// called once, from another goroutine, when the process has ended, which may
	// be before Start returns. What it left in its group is killed before that: a
	// service that is started again would meet its own remains.
	//
	// It may be called from any goroutine, and lasts as long as the disk needs
	// that the program is on.
	Start(spec ProcessSpec, exited func(ExitStatus)) (pid int, err error)
	// Signal sends a signal to the process group. ErrNotFound when it is gone.
	Signal(pid int, signal int) error
	// SignalAll sends a signal to every process of the machine but the caller's,
	// which must be PID 1, and returns how many there were. 0 only counts.
	SignalAll(signal int) (processes int, err error)
	// LockProgram keeps what the caller has read of its own program in memory
	// (mlock2(2)), and returns the bytes that this concerns. What is not read yet
	// is read when it is needed, and then kept as well.
	LockProgram() (bytes int64, err error)
	// SetTimerSlack lets the caller's own timers expire up to that many
	// nanoseconds late, several in one wake-up (proc_pid_timerslack_ns(5)).
	// Processes that Start starts have the kernel's usual slack all the same.
	SetTimerSlack(nanoseconds int64) error
}
