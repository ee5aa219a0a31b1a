package block

import "time"

const (
	// retryMin and retryMax bound the pause before what has failed is tried
	// again, doubled each time: a disk that is too small stays so, and each try
	// reads and may write it.
	retryMin, retryMax = time.Second, time.Minute
)

// retry is what is known of something that has failed.
type retry struct {
	err   error // of the last try, nil when it was good
	pause time.Duration
	at    time.Duration // not to be tried before
}

func (t *retry) failed(now time.Duration, err error) {
	t.pause = min(max(2*t.pause, retryMin), retryMax)
	t.err, t.at = err, now+t.pause
}

// waits reports whether it is too early for another try.
func (t *retry) waits(now time.Duration) bool { return t.err != nil && now < t.at }

// hasten has the next try begin at once: something has changed.
func (t *retry) hasten() { t.pause, t.at = 0, 0 }
