package fake

import "machined/hal"

// Jobs is a simulated hal.Jobs. A job runs in Step, when it is due on the
// clock, all of it at once.
type Jobs struct {
	// Delay is how long a job takes in nanoseconds.
	Delay int64
	// Delays, when set, says so for each job, by its number from 1.
	Delays func(number int) int64
	// Stuck makes the jobs that are started hang until Heal.
	Stuck bool

	clock   *Clock
	jobs    []*job // that have not ended, in the order of their start
	started int
	ended   uint64
}

type job struct {
	run   func() error
	due   int64 // nanoseconds since boot
	stuck bool
	done  bool
	err   error
}

// NewJobs returns a driver whose jobs take time on clock.
func NewJobs(clock *Clock) *Jobs { return &Jobs{clock: clock} }

// Start implements hal.Jobs.
func (j *Jobs) Start(run func() error) hal.Job {
	j.started++
	delay := j.Delay
	if j.Delays != nil {
		delay = j.Delays(j.started)
	}
	started := &job{run: run, due: j.clock.SinceBoot() + delay, stuck: j.Stuck}
	j.jobs = append(j.jobs, started)
	return started
}

// Ended implements hal.Jobs.
func (j *Jobs) Ended() uint64 { return j.ended }

// Started returns the number of jobs that were started.
func (j *Jobs) Started() int { return j.started }

// Due returns when the next job ends, in nanoseconds since boot, and false
// when none does.
func (j *Jobs) Due() (int64, bool) {
	if i := j.next(); i >= 0 {
		return j.jobs[i].due, true
	}
	return 0, false
}

// Step runs the jobs that are due, in the order in which they end.
func (j *Jobs) Step() {
	for {
		i := j.next()
		if i < 0 || j.jobs[i].due > j.clock.SinceBoot() {
			return
		}
		due := j.jobs[i]
		j.jobs = append(j.jobs[:i], j.jobs[i+1:]...)
		due.err = guarded(due.run)
		due.done = true
		j.ended++
	}
}

// next returns the index of the job that ends first, or -1.
func (j *Jobs) next() int {
	first := -1
	for i, other := range j.jobs {
		if !other.stuck && (first < 0 || other.due < j.jobs[first].due) {
			first = i
		}
	}
	return first
}

// Heal lets the jobs go on that are stuck.
func (j *Jobs) Heal() {
	j.Stuck = false
	for _, other := range j.jobs {
		other.stuck = false
	}
}

// guarded turns a panic into an error.
func guarded(run func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			err = hal.Error("panic: " + r.Error())
		case string:
			err = hal.Error("panic: " + r)
		default:
			err = hal.Error("panic")
		}
	}()
	return run()
}

// Done implements hal.Job.
func (j *job) Done() bool { return j.done }

// Err implements hal.Job.
func (j *job) Err() error { return j.err }

var _ hal.Jobs = (*Jobs)(nil)
