package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMemGuard: with little memory left the greediest process of a payload is
// ended, and nobody outside of it.
func TestMemGuard(t *testing.T) {
	const low = 40 << 10
	for _, tt := range []struct {
		name        string
		availableKB int
		kill        error
		want        time.Duration
		killed      int
		says        string
	}{
		{"much is left", 8 * low, nil, guardCalm, 0, ""},
		{"less is left", 2 * low, nil, guardAlert, 0, ""},
		{"little is left", low - 1, nil, guardRest, 30, "Process 30 of /payload/services/eater is ended for want of memory: it has 300 MiB"},
		{"it cannot be ended", low - 1, errors.New("refused"), guardRest, 30, "cannot be ended: refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(text string, path ...string) {
				file := filepath.Join(append([]string{dir}, path...)...)
				mustDo(t, os.MkdirAll(filepath.Dir(file), 0o755))
				mustDo(t, os.WriteFile(file, []byte(text), 0o644))
			}
			write(fmt.Sprintf("MemTotal: 9 kB\nMemAvailable:  %d kB\n", tt.availableKB), "proc", "meminfo")
			write("1\n10\n", "cgroup", "init", "cgroup.procs")
			write("1\n", "cgroup", "payload", "cgroup.procs")
			write("20\n30\n99\n", "cgroup", "payload", "services", "eater", "cgroup.procs")
			write("40\n", "cgroup", "payload", "pods", "pod", "cgroup.procs")
			for pid, kb := range map[int]int{1: 900 << 10, 10: 900 << 10, 20: 1 << 10, 30: 299 << 10, 40: 200 << 10} {
				write(fmt.Sprintf("RssAnon: %d kB\nRssFile: 999999 kB\nRssShmem: 1024 kB\n", kb), "proc", fmt.Sprint(pid), "status")
			}
			killed, said := 0, ""
			g := memGuard{
				low: low, proc: filepath.Join(dir, "proc"), payload: filepath.Join(dir, "cgroup", "payload"),
				kill: func(pid int) error { killed = pid; return tt.kill },
				say:  func(format string, args ...any) { said += fmt.Sprintf(format, args...) },
			}
			if got := g.look(); got != tt.want || killed != tt.killed || !strings.Contains(said, tt.says) || (said == "") != (tt.says == "") {
				t.Errorf("look() = %v, killed %d, said %q; want %v, %d, %q", got, killed, said, tt.want, tt.killed, tt.says)
			}
			mustDo(t, os.RemoveAll(g.payload))
			if killed = 0; g.look() != tt.want || killed != 0 {
				t.Errorf("without a payload process %d was ended", killed)
			}
		})
	}
}
