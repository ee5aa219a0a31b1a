package conformance

import (
	"errors"
	"strings"
	"testing"

	"machined/hal"
)

// JobsRig is a driver.
type JobsRig struct {
	Jobs hal.Jobs
	// Wait lets time pass until the job is done; it gives up, and fails the
	// test, after a while.
	Wait func(t *testing.T, j hal.Job)
}

// Jobs checks a driver.
func Jobs(t *testing.T, newRig func(t *testing.T) JobsRig) {
	t.Run("one job", func(t *testing.T) {
		r := newRig(t)
		if n := r.Jobs.Ended(); n != 0 {
			t.Errorf("Ended() before any job = %d; want 0", n)
		}
		ran := 0
		j := r.Jobs.Start(func() error { ran++; return nil })
		r.Wait(t, j)
		if err := j.Err(); err != nil || ran != 1 {
			t.Errorf("Err() = %v after %d runs; want success after one", err, ran)
		}
		if n := r.Jobs.Ended(); n != 1 {
			t.Errorf("Ended() = %d; want 1", n)
		}
	})
	t.Run("one that fails", func(t *testing.T) {
		r := newRig(t)
		broken := errors.New("broken")
		j := r.Jobs.Start(func() error { return broken })
		if !j.Done() {
			expect(t, "Err() of a job that may not have ended", j.Err(), nil)
		}
		r.Wait(t, j)
		expect(t, "Err()", j.Err(), broken)
	})
	t.Run("one that panics", func(t *testing.T) {
		r := newRig(t)
		for _, reason := range []any{"a reason", errors.New("a reason")} {
			j := r.Jobs.Start(func() error { panic(reason) })
			r.Wait(t, j)
			if err := j.Err(); err == nil || !strings.Contains(err.Error(), "a reason") {
				t.Errorf("Err() after a panic = %v; want the reason", err)
			}
		}
		if n := r.Jobs.Ended(); n != 2 {
			t.Errorf("Ended() = %d; want 2, panics included", n)
		}
	})
	t.Run("many", func(t *testing.T) {
		r := newRig(t)
		sums := make([]int, 20)
		var jobs []hal.Job
		for i := range sums {
			jobs = append(jobs, r.Jobs.Start(func() error { sums[i] = i; return nil }))
		}
		for i, j := range jobs {
			r.Wait(t, j)
			if sums[i] != i {
				t.Errorf("job %d is done and wrote %d; want %d", i, sums[i], i)
			}
		}
		if n := r.Jobs.Ended(); n != uint64(len(sums)) {
			t.Errorf("Ended() = %d; want %d", n, len(sums))
		}
	})
}
