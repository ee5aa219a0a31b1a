package netboot

import (
	"errors"
	"time"
)

// Retry says when to ask again. The zero value is ready for use.
type Retry struct {
	failures int // in a row
}

const (
	firstPause, longestPause = time.Second, time.Minute
	// A refusal and a config that is not valid last until a person has done
	// something.
	firstSlowPause, longestSlowPause = 10 * time.Second, 5 * time.Minute
)

// After returns how long to wait after a call that ended with err.
func (r *Retry) After(err error) time.Duration {
	var held *HeldError
	var refused *RefusedError
	switch {
	case errors.As(err, &held):
		r.failures = 0
		return held.After
	case errors.As(err, &refused):
		return r.pause(firstSlowPause, longestSlowPause)
	}
	return r.pause(firstPause, longestPause)
}

// AfterUnusable returns how long to wait after an answer that the node cannot use.
func (r *Retry) AfterUnusable() time.Duration { return r.pause(firstSlowPause, longestSlowPause) }

func (r *Retry) pause(first, longest time.Duration) time.Duration {
	pause := first
	for range min(r.failures, 10) {
		pause = min(2*pause, longest)
	}
	r.failures++
	return pause
}
