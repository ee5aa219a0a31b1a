package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"machined/init/config"
	"machined/reconcile/runtime"
)

// TestPodLogsAreLetGo: the pipes of pods that were taken out of the config stayed
// open, each with a goroutine and a buffer, and their rings took room from the
// others, for as long as the node ran.
func TestPodLogsAreLetGo(t *testing.T) {
	r := newRig(t)
	pods := func(from, to int) (all []runtime.Pod) {
		for i := from; i < to; i++ {
			p := podWith()
			p.Name, p.Containers[0].Name = fmt.Sprint("pod-", i), "main"
			all = append(all, *p)
		}
		return all
	}
	all := pods(0, 20)
	r.settings.Runtime.Pods = all
	for i := range all {
		mustDo(t, r.openPodLogs(&all[i]))
		mustDo(t, r.openPodLogs(&all[i])) // as for its next start
	}
	path := func(i int) string { return filepath.Join(r.at(podLogDir), fmt.Sprint("pod-", i), "main.log") }
	line := []byte("2026-01-01T00:00:00.5Z stdout F hello\n")
	mustDo(t, os.WriteFile(path(3), line, 0))
	waitUntil(t, func() bool { return r.rings.Find("pod/pod-3/main").Stats().Entries == 1 })

	pipe := r.containers.logs.pipes[path(3)]
	r.settings.Runtime.Pods = pods(18, 20)
	r.closePodLogs(5)
	mustDo(t, os.WriteFile(path(3), line, 0)) // its last words
	waitUntil(t, func() bool { return r.rings.Find("pod/pod-3/main").Stats().Entries == 2 })
	r.closePodLogs(5 + podPipeStays)
	if _, err := pipe.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the pipe of a pod that is gone: %v; want it closed", err)
	}
	if n := len(r.containers.logs.pipes); n != 2 || exists(path(3)) || !exists(path(18)) {
		t.Errorf("%d pipes are left; want those of the two pods that are in the config", n)
	}
	if ids := r.rings.IDs(); len(ids) != goneLogs+2 || r.rings.Find("pod/pod-17/main") == nil || r.rings.Find("pod/pod-18/main") == nil {
		t.Errorf("the logs are %q; want those of the config, and the last %d beside", ids, goneLogs)
	}
	mustDo(t, r.openPodLogs(&all[3])) // it comes back
	if n := len(r.containers.logs.pipes); n != 3 {
		t.Errorf("%d pipes after a pod has come back; want 3", n)
	}
}

// TestOutputAfterWant: a service whose pipes could not be made, for want of files,
// was without for good.
func TestOutputAfterWant(t *testing.T) {
	r := newRig(t)
	r.outputs.pipes = map[string]pipes{"web": {limit: &limiter{print: func(string, ...any) {}}}}
	if out, errs := r.output("web"); out < 0 || errs < 0 {
		t.Errorf("the descriptors are %d and %d; want them to be had now", out, errs)
	}
	r.closeOutputs(func(string) bool { return false })
}

// TestSinksOfAnotherConfig: a sink that is in both configs was begun anew, and got
// all that was kept a second time; and it went by the old name of the node.
func TestSinksOfAnotherConfig(t *testing.T) {
	r := newRig(t)
	a, b := config.LogSink{Address: "127.0.0.1:9"}, config.LogSink{Address: "127.0.0.1:19"}
	r.loaded.Config.Machine.Logs.Sinks = []config.LogSink{a, b}
	r.startSinks()
	ended := false
	end := r.sinks.ends[b]
	r.sinks.ends[b] = func() { ended = true; end() }
	before := r.sinks.host.Load()
	r.loaded.Config.Machine.Logs.Sinks = []config.LogSink{a, {Address: "127.0.0.1:29"}}
	r.loaded.Config.Machine.Hostname = "renamed"
	r.startSinks()
	if _, kept := r.sinks.ends[a]; !kept || !ended || len(r.sinks.ends) != 2 || *before == "renamed" || *r.sinks.host.Load() != "renamed" {
		t.Errorf("after another config the sinks are %v, by the name of %s; want the first kept, the second ended", r.sinks.ends, *r.sinks.host.Load())
	}
	r.loaded.Config.Machine.Logs.Sinks = nil
	r.startSinks()
	if len(r.sinks.ends) != 0 {
		t.Error("sinks are left that no config names")
	}
}

// TestLimiterTellsOfAll: the first line after a full second could come before the
// word on how many were kept back, which then was of none, and let as many through
// again.
func TestLimiterTellsOfAll(t *testing.T) {
	var shown []string
	l := &limiter{print: func(format string, args ...any) { shown = append(shown, fmt.Sprintf(format, args...)) }}
	for range 100 {
		l.line([]byte("x"))
	}
	l.mu.Lock()
	l.until = l.until.Add(-2e9) // the second is over, and tell is late
	l.mu.Unlock()
	l.line([]byte("y"))
	l.tell()
	if n := len(shown); n != consoleLines+1 || !slices.Contains(shown, "(81 more lines; all that are kept are in its log.)") {
		t.Errorf("the console got %d lines, at last %q; want %d and the word on the other 81", n, shown[n-1], consoleLines)
	}
}
