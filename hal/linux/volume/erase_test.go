package volume

import (
	"testing"

	"machined/hal"
	"machined/hal/signature"
)

// TestErasePieces: who waits for an erasure hears of each piece that is on the disk,
// before so much more is written that a slow card would seem dead.
func TestErasePieces(t *testing.T) {
	disk := newRAMDisk(64 * mib)
	templates := simpleTemplates()
	mustProvision(t, disk, templates, state, ephemeral)
	e, other := mustFind(t, disk, "STATE"), mustFind(t, disk, "EPHEMERAL")
	secret := make([]byte, 6*mib)
	for i := range secret {
		secret[i] = 0x5a
	}
	disk.apply(e.Start+8*mib, secret) // as a service would have written it
	before := string(readAt(t, disk, other.Start, other.Size))

	const most = 4 * mib // hal.Provisioner promises it
	disk.record = nil
	p, _ := newProvisioner(disk, templates)
	pieces, seen := 0, 0
	moved := func() {
		pieces++
		written := 0
		for _, o := range disk.record[seen:] {
			written += len(o.data)
		}
		if written > most || len(disk.record) == 0 || disk.record[len(disk.record)-1].data != nil {
			t.Errorf("piece %d has %d bytes written, the last operation a sync or not; want %d at most, and on the disk", pieces, written, most)
		}
		seen = len(disk.record)
	}
	if err := p.Erase(ramPath, hal.StateVolume, moved); err != nil {
		t.Fatalf("Erase(STATE) = %v; want success", err)
	}
	if want := int(e.Size / most); pieces != want {
		t.Errorf("the erasure of %d bytes was told of %d times; want %d", e.Size, pieces, want)
	}
	if !signature.Empty(readAt(t, disk, e.Start, e.Size)) {
		t.Error("STATE is not empty")
	}
	if string(readAt(t, disk, other.Start, other.Size)) != before {
		t.Error("EPHEMERAL is not what it was")
	}
}
