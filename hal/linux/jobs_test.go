package linux

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/conformance"
)

func waitForJob(t *testing.T, j hal.Job) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !j.Done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the job is not done after 10 s")
		}
	}
}

// countedJobs waits for the count that follows Done.
type countedJobs struct{ *Jobs }

func (c countedJobs) Ended() uint64 {
	time.Sleep(10 * time.Millisecond)
	return c.Jobs.Ended()
}

func TestJobs(t *testing.T) {
	conformance.Jobs(t, func(*testing.T) conformance.JobsRig {
		return conformance.JobsRig{Jobs: countedJobs{NewJobs(func() {})}, Wait: waitForJob}
	})
}

// TestJobsKick checks that the loop is woken when the job is done, and that a
// job which hangs holds nobody up.
func TestJobsKick(t *testing.T) {
	kicks := make(chan struct{}, 10)
	jobs := NewJobs(func() { kicks <- struct{}{} })
	release := make(chan struct{})
	slow := jobs.Start(func() error { <-release; return nil })
	quick := jobs.Start(func() error { return nil })
	<-kicks
	if slow.Done() || !quick.Done() || jobs.Ended() != 1 {
		t.Errorf("after the first kick slow.Done() = %v, quick.Done() = %v, Ended() = %d; want the quick one alone", slow.Done(), quick.Done(), jobs.Ended())
	}
	close(release)
	<-kicks
	if !slow.Done() || jobs.Ended() != 2 {
		t.Errorf("after the second kick slow.Done() = %v, Ended() = %d; want both", slow.Done(), jobs.Ended())
	}
}

func TestJobThatExits(t *testing.T) {
	var kicked atomic.Bool
	j := NewJobs(func() { kicked.Store(true) }).Start(func() error { runtime.Goexit(); return nil })
	waitForJob(t, j)
	if j.Err() == nil {
		t.Error("Err() = nil of a job that did not return; want an error")
	}
}
