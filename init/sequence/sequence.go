// Package sequence runs ordered tasks: boot, shutdown, and the sequences that
// exclude each other by priority.
package sequence

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// Task is one step. A task whose failure the node can live with is Optional:
// it is reported and the next one runs.
type Task struct {
	Name     string
	Optional bool
	Run      func() error
}

// Run runs the tasks in order and stops at the first failure of one that is
// not optional. A panic counts as a failure. report is told of each failure
// as it happens.
func Run(tasks []Task, report func(task string, err error)) error {
	for _, t := range tasks {
		err := guarded(t.Run)
		if err == nil {
			continue
		}
		report(t.Name, err)
		if !t.Optional {
			return fmt.Errorf("task %s: %w", t.Name, err)
		}
	}
	return nil
}

// PanicError is a panic that a task ended in.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

func guarded(run func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return run()
}

// Priority orders the sequences: a higher one may interrupt a lower one.
type Priority int

// The priorities. A node on its way down is not to be held up by anything.
const (
	Boot Priority = iota + 1
	Upgrade
	Reset
	Reboot
	Shutdown
)

// String returns the sequence's name.
func (p Priority) String() string {
	switch p {
	case Boot:
		return "boot"
	case Upgrade:
		return "upgrade"
	case Reset:
		return "reset"
	case Reboot:
		return "reboot"
	case Shutdown:
		return "shutdown"
	}
	return "no sequence"
}

// ErrLocked says that a sequence of equal or higher priority runs.
var ErrLocked = errors.New("another sequence is running")

// Lock lets one sequence run at a time. The zero value is unlocked.
type Lock struct {
	mu      sync.Mutex
	running Priority
}

// Take locks for p, interrupting a sequence of lower priority.
func (l *Lock) Take(p Priority) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running >= p {
		return fmt.Errorf("start %s while %s runs: %w", p, l.running, ErrLocked)
	}
	l.running = p
	return nil
}

// Release unlocks p's lock; that of a sequence which has taken over stays.
func (l *Lock) Release(p Priority) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == p {
		l.running = 0
	}
}
