package volume

import (
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/signature"
)

// TestLargeBlocks provisions a disk whose logical blocks have 4,096 bytes, in
// which its table counts.
func TestLargeBlocks(t *testing.T) {
	for name, write := range map[string]func(*ramDisk){
		"blank": func(*ramDisk) {}, "wiped": func(d *ramDisk) { d.fill = 0xa5 },
	} {
		disk := newRAMDisk(64 * mib)
		write(disk)
		p, k := newProvisioner(disk, simpleTemplates())
		open := p.open
		p.open = func(path string, exclusive bool) (*opened, error) {
			o, err := open(path, exclusive)
			if err == nil {
				o.block = 4096
			}
			return o, err
		}
		request := hal.Provision{Disk: ramPath, Wipe: name == "wiped", Volumes: []hal.NewVolume{state, ephemeral}}
		if err := p.Provision(request); err != nil {
			t.Fatalf("%s: Provision = %v; want success", name, err)
		}
		table, err := signature.ReadTable(disk, disk.size, 4096)
		if err != nil || table.Backup == nil || table.Damage != "" || len(table.Partitions) != 2 {
			t.Errorf("%s: the table is %+v, %v; want a whole one with two partitions", name, table, err)
		}
		if want := []Extent{{1, 1 * mib, 16 * mib}, {2, 17 * mib, 46 * mib}}; !slices.Equal(k.told, want) {
			t.Errorf("%s: the kernel was told of %+v; want %+v", name, k.told, want)
		}
		checkContents(t, disk, mustFind(t, disk, "EPHEMERAL"))
	}
}
