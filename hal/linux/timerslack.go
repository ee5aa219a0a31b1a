package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// usualSlack is the timer slack of a process in nanoseconds, unless somebody
// changes it (PR_SET_TIMERSLACK(2const)).
const usualSlack = 50_000

// SetTimerSlack implements hal.Processes. Threads that come later have it from
// the thread that makes them.
func (p *Processes) SetTimerSlack(nanoseconds int64) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("set the timer slack: %w", err)
	}
	for _, task := range tasks {
		// A thread has a directory there too, which the list of /proc leaves out.
		file := filepath.Join("/proc", task.Name(), "timerslack_ns")
		err := os.WriteFile(file, []byte(strconv.FormatInt(nanoseconds, 10)), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set the timer slack of a thread: %w", err)
		}
	}
	return nil
}
