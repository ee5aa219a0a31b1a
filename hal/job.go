package hal

// Jobs runs slow calls beside the loop, which starts one and looks at it again
// later: nothing may block the loop.
type Jobs interface {
	// Start runs run. What run writes is to be read only after Done. A panic
	// in run is its error.
	Start(run func() error) Job
	// Ended returns the number of jobs that have ended so far. It may be
	// called at any time and is cheap: the loop compares it at each pass.
	Ended() uint64
}

// Job is one call that was started.
type Job interface {
	// Done reports whether run has returned.
	Done() bool
	// Err is what run returned; nil before Done.
	Err() error
}
