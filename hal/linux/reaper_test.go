package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// TestReaper tells of statuses that got lost: a wait4(-1) took the status of a
// service's process before the service was known under its number, or os/exec
// took one that was the reaper's. A program of its own adopts orphans as PID 1
// does and gets thousands of ends at once.
func TestReaper(t *testing.T) {
	cmd := self("reaper", 0)
	if os.Geteuid() != 0 {
		// Then TestMain has no children; the storm runs here.
		if code := reaperChild(); code != 0 {
			t.Errorf("the reaper's storm ended with code %d", code)
		}
		return
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the reaper's storm: %v\n%s", err, out)
	}
}

const stormSize = 1000 // children, and as many orphans

// storm counts how often each child's end was reported, and how.
type storm struct {
	mu       sync.Mutex
	reports  [stormSize][]hal.ExitStatus
	pids     [stormSize]int
	complain []string
}

// reaperChild is the program of its own. It returns its exit code.
func reaperChild() int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Println("become the reaper of orphans:", err)
		return 1
	}
	reaper := NewReaper()
	defer reaper.Close()
	var s storm
	s.start(NewProcesses(reaper, ""))
	for deadline := time.Now().Add(20 * time.Second); !s.calm(reaper) && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	s.check(reaper)
	for _, c := range s.complain {
		fmt.Println(c)
	}
	return min(len(s.complain), 1)
}

// script leaves an orphan behind, which ends while others of its kind do, and
// ends itself by an exit code or, each tenth, by a signal.
func script(i int) (string, hal.ExitStatus) {
	orphan := fmt.Sprintf("(sleep 0.0%d; exit 99) & ", i%10)
	if i%10 == 9 {
		return orphan + "kill -9 $$", hal.ExitStatus{Signal: 9}
	}
	return orphan + fmt.Sprint("exit ", i%251), hal.ExitStatus{Code: i % 251}
}

func (s *storm) start(p *Processes) {
	const starters = 4
	var all sync.WaitGroup
	for n := range starters {
		all.Go(func() {
			for i := n; i < stormSize; i += starters {
				run, _ := script(i)
				pid, err := p.Start(hal.ProcessSpec{Argv: []string{"/bin/sh", "-c", run}, Env: []string{"PATH=/bin:/usr/bin"}, Stdout: -1, Stderr: -1},
					func(e hal.ExitStatus) { s.report(i, e) })
				s.mu.Lock()
				s.pids[i] = pid
				if err != nil {
					s.complain = append(s.complain, fmt.Sprint("start: ", err))
				}
				s.mu.Unlock()
			}
		})
	}
	all.Wait()
}

func (s *storm) report(i int, e hal.ExitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports[i] = append(s.reports[i], e)
}

// calm reports whether all have ended and nothing is left to reap.
func (s *storm) calm(r *Reaper) bool {
	return waitingFor(r) == 0 && len(children(func(...any) {})) == 0
}

func waitingFor(r *Reaper) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

func (s *storm) check(r *Reaper) {
	fatal := func(args ...any) { s.complain = append(s.complain, fmt.Sprint(args...)) }
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, got := range s.reports {
		_, want := script(i)
		want.PID = s.pids[i]
		if len(got) != 1 || got[0] != want {
			fatal(fmt.Sprintf("child %d was reported as %+v; want %+v, once", i, got, want))
		}
	}
	if left := children(fatal); len(left) != 0 {
		fatal(fmt.Sprintf("%d children are left, %d of them zombies; want none", len(left), zombies(fatal)))
	}
	if n := waitingFor(r); n != 0 {
		fatal(fmt.Sprintf("%d processes are still waited for", n))
	}
}

// children returns the states of this process's children by their numbers.
func children(fatal func(...any)) map[int]string {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		fatal(err)
	}
	states := make(map[int]string)
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended since
		}
		// The name stands in parentheses and may hold anything.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			states[pid] = fields[0]
		}
	}
	return states
}

func zombies(fatal func(...any)) int {
	n := 0
	for _, state := range children(fatal) {
		if state == "Z" {
			n++
		}
	}
	return n
}
