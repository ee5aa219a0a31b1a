package main

import (
	"fmt"
	"testing"
)

func TestKilobytes(t *testing.T) {
	const text = "MemTotal:         411844 kB\nMemFree:\t12 kB\nName:\tmachined\nVmPeak: 18446744073709551615 kB\nHuge: 18446744073709551616 kB\nHugePages_Total:       3\nBad: -1 kB\nRssAnon:7 kB"
	for _, c := range []struct {
		key  string
		want uint64
	}{
		{"MemTotal", 411844}, {"MemFree", 12}, {"RssAnon", 7}, {"HugePages_Total", 3}, {"VmPeak", 1<<64 - 1},
		{"Name", 0}, {"Huge", 0}, {"Bad", 0}, {"Mem", 0}, {"absent", 0}, {"", 0},
	} {
		if got := kilobytes([]byte(text), c.key); got != c.want {
			t.Errorf("kilobytes(%q) = %d; want %d", c.key, got, c.want)
		}
	}
	m := memoryStatus()
	if m.MemTotalKB == 0 || m.MemAvailableKB == 0 || m.MemAvailableKB > m.MemTotalKB || m.RSSAnonKB == 0 || m.Goroutines == 0 || m.OpenFiles < 3 {
		t.Errorf("memoryStatus() = %+v; want the kernel's accounts", m)
	}
}

func FuzzKilobytes(f *testing.F) {
	f.Add([]byte("MemTotal: 1 kB\n"), "MemTotal", uint64(411844))
	f.Add([]byte(":\n: kB"), "", uint64(0))
	f.Fuzz(func(t *testing.T, text []byte, key string, n uint64) {
		_ = kilobytes(text, key) // whatever it is
		for _, c := range key {
			if c == ':' || c == '\n' {
				return
			}
		}
		line := fmt.Appendf(nil, "%s:   %d kB\n", key, n)
		if got := kilobytes(line, key); got != n {
			t.Errorf("kilobytes(%q, %q) = %d; want %d", line, key, got, n)
		}
	})
}
