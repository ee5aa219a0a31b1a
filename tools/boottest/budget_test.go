package boottest

import (
	"strconv"
	"testing"
)

// The budgets of the Pi 3A+ that are no times.
const (
	minAvailableKB = 345_000
	maxAnonKB      = 8 << 10
	maxSlotBytes   = 45 << 20
)

// checkBudgets compares a node at rest with its budgets.
func checkBudgets(t *testing.T, m *machine) {
	t.Helper()
	memory := m.get(t, "MemoryStatus")["memory"]
	number := func(field string) int64 {
		n, err := strconv.ParseInt(memory[field], 10, 64)
		if err != nil {
			t.Fatalf("MemoryStatus.%s: %v", field, err)
		}
		return n
	}
	if got := number("mem_available_kb"); got < minAvailableKB {
		t.Errorf("MemAvailable is %d kB; want at least %d", got, minAvailableKB)
	}
	if got := number("rss_anon_kb"); got > maxAnonKB {
		t.Errorf("machined's RssAnon is %d kB; want at most %d", got, maxAnonKB)
	}
	var slot int64
	for _, f := range m.node.Image.Manifest.Slot.Files {
		slot += f.Size
	}
	if slot > maxSlotBytes {
		t.Errorf("a slot takes %d bytes; want at most %d", slot, maxSlotBytes)
	}
}
