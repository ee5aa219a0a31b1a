package fake_test

import (
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/fake"
)

func TestJobs(t *testing.T) {
	conformance.Jobs(t, func(*testing.T) conformance.JobsRig {
		clock := fake.NewClock(y2026)
		jobs := fake.NewJobs(clock)
		jobs.Delay = 3 * second
		return conformance.JobsRig{Jobs: jobs, Wait: func(t *testing.T, j hal.Job) {
			for range 10 {
				if j.Done() {
					return
				}
				clock.Advance(second)
				jobs.Step()
			}
			t.Fatal("the job is not done after 10 s")
		}}
	})
}

// TestJobsInOrder runs jobs in the order in which they end, also one that a
// job starts.
func TestJobsInOrder(t *testing.T) {
	clock := fake.NewClock(y2026)
	jobs := fake.NewJobs(clock)
	delays := []int64{3 * second, second, 2 * second, 0, second}
	jobs.Delays = func(number int) int64 { return delays[number-1] }
	var order []int
	add := func(n int) func() error { return func() error { order = append(order, n); return nil } }
	jobs.Start(add(1))
	jobs.Start(func() error { jobs.Start(add(4)); return add(2)() })
	jobs.Start(add(3))
	if due, ok := jobs.Due(); due != second || !ok {
		t.Errorf("Due() = %d, %v; want 1 s", due, ok)
	}
	jobs.Step()
	if len(order) != 0 {
		t.Errorf("%v ran before they were due", order)
	}
	clock.Advance(5 * second)
	jobs.Step()
	if want := []int{2, 3, 1, 4}; !slices.Equal(order, want) || jobs.Ended() != 4 || jobs.Started() != 4 {
		t.Errorf("they ran in the order %v, %d of them; want %v", order, jobs.Ended(), want)
	}
	if _, ok := jobs.Due(); ok {
		t.Error("a job is due after all have ended")
	}
}

func TestStuckJob(t *testing.T) {
	clock := fake.NewClock(y2026)
	jobs := fake.NewJobs(clock)
	jobs.Stuck = true
	stuck := jobs.Start(func() error { return nil })
	jobs.Stuck = false
	other := jobs.Start(func() error { return nil })
	clock.Advance(1000 * second)
	jobs.Step()
	if stuck.Done() || !other.Done() {
		t.Errorf("the stuck job is done: %v, the other: %v; want the other alone", stuck.Done(), other.Done())
	}
	jobs.Heal()
	jobs.Step()
	if !stuck.Done() {
		t.Error("the job is not done after Heal")
	}
}

func TestFiles(t *testing.T) {
	conformance.Files(t, func(*testing.T) conformance.FilesRig {
		f := &fake.Files{}
		return conformance.FilesRig{Files: f, Public: func(_ *testing.T, path string) bool { return f.Public(path) }}
	})
}

func TestFileFaults(t *testing.T) {
	f := &fake.Files{}
	f.Put("/a", []byte("old"), false)
	f.Fail("Replace", 1, hal.ErrNoSpace)
	if err := f.Replace("/a", []byte("new"), false); err != hal.ErrNoSpace {
		t.Errorf("Replace = %v; want %v", err, hal.ErrNoSpace)
	}
	if b, err := f.Read("/a"); string(b) != "old" || err != nil || f.Writes != 0 {
		t.Errorf("Read after a failed Replace = %q, %v, with %d writes; want the old content", b, err, f.Writes)
	}
}
