package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLinesWait(t *testing.T) {
	l := newLines()
	go func() {
		for range 3 {
			fmt.Fprint(l, "bare")
			fmt.Fprint(l, "init: end\n") // in two writes
		}
	}()
	if err := l.wait("bareinit: end", 3, time.Minute); err != nil {
		t.Errorf("wait() = %v; want nil", err)
	}
	if err := l.wait("bareinit: end", 4, 0); err == nil || !strings.Contains(err.Error(), `"bareinit: end" 4 times`) {
		t.Errorf("wait() = %v; want that the text has not come 4 times", err)
	}
}

func TestLastNumber(t *testing.T) {
	for _, c := range []struct {
		console string
		want    int64
		says    string // in the error; none when empty
	}{
		{"MemAvailable:   1234 kB\n", 1234, ""},
		{"MemAvailable: 1 kB\nMemFree: 7\nMemAvailable: 2 kB\nMemFree: 8\n", 2, ""},
		{"MemFree: 7\n", 0, "does not show"},
		{"MemAvailable:", 0, "nothing behind"},
		{"MemAvailable: much\n", 0, "invalid syntax"},
	} {
		l := newLines()
		fmt.Fprint(l, c.console)
		got, err := l.lastNumber("MemAvailable:")
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("lastNumber(%q) = %d, %v; want %d %s", c.console, got, err, c.want, c.says)
		}
	}
}

func TestKeepMin(t *testing.T) {
	var best time.Duration
	for _, d := range []time.Duration{3, 2, 5} {
		keepMin(&best, d)
	}
	if best != 2 {
		t.Errorf("keepMin() keeps %d; want 2", best)
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	figures{memTotal: 1, memAvailable: 2, bareAvailable: 3, rssAnon: 4, rssFile: 5, bareInit: 6500 * time.Millisecond, apiReady: 7 * time.Second, slotBytes: 8,
		runtimeAvailable: 9, podAvailable: 10, containerdAnon: 11, runtimeReady: 12 * time.Second, wakeUps: 1.3, cpuPercent: 0.14}.print(&out)
	const want = "mem_total_kb=1\nmem_available_kb=2\nbare_available_kb=3\nmachined_rss_anon_kb=4\nmachined_rss_file_kb=5\n" +
		"bare_init_s=6.50\napi_ready_s=7.00\nslot_bytes=8\n" +
		"mem_available_runtime_kb=9\nmem_available_pod_kb=10\ncontainerd_rss_anon_kb=11\n" +
		"runtime_ready_s=12.00\nmachined_wakeups_per_s=1.30\nmachined_cpu_percent=0.14\n"
	if out.String() != want {
		t.Errorf("print() = %q; want %q", out.String(), want)
	}
}
