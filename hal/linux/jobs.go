package linux

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"machined/hal"
)

// Jobs is the real hal.Jobs: a goroutine a job.
type Jobs struct {
	count atomic.Uint64
	ended func()
}

// NewJobs returns the driver. ended is called after each job, from the job's
// goroutine.
func NewJobs(ended func()) *Jobs { return &Jobs{ended: ended} }

// Start implements hal.Jobs.
func (j *Jobs) Start(run func() error) hal.Job {
	started := &job{err: errExited}
	go func() {
		defer func() {
			// One job must not take the node down.
			if r := recover(); r != nil {
				started.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
			started.done.Store(true)
			j.count.Add(1)
			j.ended()
		}()
		started.err = run()
	}()
	return started
}

// errExited says that a job ended its goroutine instead of returning.
var errExited = errors.New("the job did not return")

// Ended implements hal.Jobs.
func (j *Jobs) Ended() uint64 { return j.count.Load() }

// job is one that was started.
type job struct {
	done atomic.Bool
	err  error // written before done
}

func (j *job) Done() bool { return j.done.Load() }

func (j *job) Err() error {
	if !j.done.Load() {
		return nil
	}
	return j.err
}

var _ hal.Jobs = (*Jobs)(nil)
