package fake

import "machined/hal"

// Program is how the processes of one command behave. The zero value runs
// until it is signalled.
type Program struct {
	// Lifetime in nanoseconds after which the process ends by itself with
	// Code; 0 means never.
	Lifetime int64
	Code     int
	// StopDelay is the time that it takes to end after a TERM, with StopCode
	// if that is not 0 and by the signal otherwise.
	StopDelay  int64
	StopCode   int
	IgnoreTerm bool
	// Unkillable is a process in an uninterruptible sleep: not even KILL ends
	// it.
	Unkillable bool
}

// Process is a simulated process.
type Process struct {
	PID     int
	Spec    hal.ProcessSpec
	Started int64 // nanoseconds since boot
	Signals []int // as they came

	program Program
	exited  func(hal.ExitStatus)
	ends    int64 // when, negative for never
	status  hal.ExitStatus
}

// Processes is a simulated hal.Processes. Nothing ends while Start or Signal
// run: Step and Exit deliver, so that a test decides on the order of events.
type Processes struct {
	Faults
	// Starts counts the processes that were started.
	Starts int
	// Locked is set when the program is locked.
	Locked bool
	// TimerSlack in nanoseconds, as it was set last.
	TimerSlack int64

	clock    *Clock
	programs []program
	running  []*Process
	lastPID  int
}

type program struct {
	path string
	Program
}

const (
	sigTerm, sigKill = 15, 9
	firstPID         = 100
	forever          = int64(-1)
)

// NewProcesses returns a driver on the time of clock.
func NewProcesses(clock *Clock) *Processes { return &Processes{clock: clock, lastPID: firstPID - 1} }

// AddProgram puts a program at path, in place of the one that is there.
func (p *Processes) AddProgram(path string, b Program) {
	p.RemoveProgram(path)
	p.programs = append(p.programs, program{path: path, Program: b})
}

// RemoveProgram takes the program at path away: to start it fails.
func (p *Processes) RemoveProgram(path string) {
	kept := p.programs[:0]
	for _, other := range p.programs {
		if other.path != path {
			kept = append(kept, other)
		}
	}
	p.programs = kept
}

// Start implements hal.Processes.
func (p *Processes) Start(spec hal.ProcessSpec, exited func(hal.ExitStatus)) (int, error) {
	if err := p.failing("Start"); err != nil {
		return 0, err
	}
	if len(spec.Argv) == 0 {
		return 0, hal.ErrInvalid
	}
	for _, b := range p.programs {
		if b.path != spec.Argv[0] {
			continue
		}
		p.lastPID++
		p.Starts++
		now := p.clock.SinceBoot()
		started := &Process{PID: p.lastPID, Spec: spec, Started: now, program: b.Program, exited: exited, ends: forever}
		if b.Lifetime > 0 {
			started.end(now+b.Lifetime, hal.ExitStatus{Code: b.Code})
		}
		p.running = append(p.running, started)
		return p.lastPID, nil
	}
	return 0, ErrNoProgram
}

// Signal implements hal.Processes.
func (p *Processes) Signal(pid, signal int) error {
	if err := p.failing("Signal"); err != nil {
		return err
	}
	if pid <= 1 {
		return hal.ErrInvalid
	}
	running := p.Find(pid)
	if running == nil {
		return hal.ErrNotFound
	}
	running.Signals = append(running.Signals, signal)
	now, b := p.clock.SinceBoot(), running.program
	switch {
	case signal == 0 || b.Unkillable || signal == sigTerm && b.IgnoreTerm:
	case signal == sigTerm && b.StopCode != 0:
		running.end(now+b.StopDelay, hal.ExitStatus{Code: b.StopCode})
	case signal == sigTerm:
		running.end(now+b.StopDelay, hal.ExitStatus{Signal: sigTerm})
	default:
		running.end(now, hal.ExitStatus{Signal: signal})
	}
	return nil
}

// SignalAll implements hal.Processes. It reaches all of them alone: they are a
// process each.
func (p *Processes) SignalAll(signal int) (int, error) {
	if err := p.failing("SignalAll"); err != nil {
		return 0, err
	}
	n := len(p.running)
	for _, r := range p.running {
		if err := p.Signal(r.PID, signal); err != nil {
			return n, err
		}
	}
	return n, nil
}

// LockProgram implements hal.Processes.
func (p *Processes) LockProgram() (int64, error) {
	if err := p.failing("LockProgram"); err != nil {
		return 0, err
	}
	p.Locked = true
	return 1, nil
}

// SetTimerSlack implements hal.Processes.
func (p *Processes) SetTimerSlack(nanoseconds int64) error {
	if err := p.failing("SetTimerSlack"); err != nil {
		return err
	}
	p.TimerSlack = nanoseconds
	return nil
}

// end plans the process's end, unless it ends earlier anyway.
func (p *Process) end(at int64, status hal.ExitStatus) {
	if p.ends < 0 || at < p.ends {
		status.PID = p.PID
		p.ends, p.status = at, status
	}
}

// Running returns the processes that have not ended, the oldest first.
func (p *Processes) Running() []*Process { return p.running }

// Find returns the running process of that number, or nil.
func (p *Processes) Find(pid int) *Process {
	for _, r := range p.running {
		if r.PID == pid {
			return r
		}
	}
	return nil
}

// NextEnd returns when the next process ends by itself, false if none does.
func (p *Processes) NextEnd() (int64, bool) {
	next := forever
	for _, r := range p.running {
		if r.ends >= 0 && (next < 0 || r.ends < next) {
			next = r.ends
		}
	}
	return next, next >= 0
}

// Step ends the processes whose time has come and calls their callbacks.
func (p *Processes) Step() {
	now := p.clock.SinceBoot()
	for {
		i := p.due(now)
		if i < 0 {
			return
		}
		p.finish(i, p.running[i].status)
	}
}

func (p *Processes) due(now int64) int {
	for i, r := range p.running {
		if r.ends >= 0 && r.ends <= now {
			return i
		}
	}
	return -1
}

// Exit ends the process at once with that status, whose PID is filled in. It
// reports whether there was such a process.
func (p *Processes) Exit(pid int, status hal.ExitStatus) bool {
	for i, r := range p.running {
		if r.PID == pid {
			status.PID = pid
			p.finish(i, status)
			return true
		}
	}
	return false
}

func (p *Processes) finish(i int, status hal.ExitStatus) {
	ended := p.running[i]
	p.running = append(p.running[:i:i], p.running[i+1:]...)
	if ended.exited != nil {
		ended.exited(status)
	}
}

var _ hal.Processes = (*Processes)(nil)
