package timesync

import (
	"strconv"
	"strings"
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// keepEvery is how often the time is kept: a write an hour does not wear a card,
// and a certificate that was made in that hour is backdated by a day.
const keepEvery = time.Hour

// Keep keeps the time in a file, so that a board without a clock of its own
// starts where it was last.
type Keep struct {
	Clock hal.Clock
	Files hal.Files
	Jobs  hal.Jobs
	// Path returns the file, "" while there is no place for it.
	Path func() string
	// Floor is that of Sync.
	Floor int64

	job  hal.Job
	next time.Duration
}

func (k *Keep) Spec() reconcile.Spec {
	return reconcile.Spec{Name: "time-keep", Inputs: []resource.Kind{resource.VolumeStatusKind, resource.TimeStatusKind}}
}

// Reconcile writes only a time that a server has said: another one is no better
// than what the file has.
func (k *Keep) Reconcile(r *reconcile.Run) error {
	if k.job != nil && k.job.Done() {
		err := k.job.Err()
		k.job = nil
		if err != nil {
			k.next = r.Now // the loop comes back, later each time
			return err
		}
	}
	status, _, _ := r.Store.Time.Get(resource.TimeStatus{}.Key())
	path := k.Path()
	if path == "" || status.SyncCount == 0 || k.job != nil {
		return nil
	}
	if r.Now < k.next {
		r.WakeAt(k.next)
		return nil
	}
	k.next = r.Now + keepEvery
	now := k.Clock.Now()
	if now >= Ceiling(k.Floor) {
		r.WakeAt(k.next) // somebody has set the clock; the next round sets it right
		return nil
	}
	files, text := k.Files, FormatTime(now)
	k.job = k.Jobs.Start(func() error { return files.Replace(path, []byte(text), false) })
	r.WakeAt(k.next)
	return nil
}

// FormatTime is the content of the file for a Unix time in nanoseconds.
func FormatTime(unixNanos int64) string {
	return strconv.FormatInt(unixNanos/int64(time.Second), 10) + "\n"
}

// ParseTime reads what FormatTime wrote, as Unix time in nanoseconds. A time
// that no such board can have been on at is refused.
func ParseTime(text string) (unixNanos int64, ok bool) {
	seconds, err := strconv.ParseInt(strings.TrimSuffix(text, "\n"), 10, 64)
	const y2200 = 7258118400
	if err != nil || seconds <= 0 || seconds > y2200 {
		return 0, false
	}
	return seconds * int64(time.Second), true
}
