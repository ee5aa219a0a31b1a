package conformance

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"machined/hal"
)

// bootSize is that of the boot partitions here, in bytes.
const bootSize = 4 * mib

func bootContent() []byte { return bytes.Repeat([]byte("boot"), bootSize/4) }

// installs makes boot partitions, and the volumes beside them.
func installs(t *testing.T, newRig func(t *testing.T) ProvisionerRig) {
	for _, c := range []struct {
		name  string
		kind  DiskKind
		wipe  bool
		table hal.Table
		kinds string // of the partition
		want  error
	}{
		{"blank, GPT", BlankDisk, false, hal.GPT, "c12a7328-f81f-11d2-ba4b-00a0c93ec93b", nil},
		{"blank, MBR", BlankDisk, false, hal.MBR, "0c", nil},
		{"foreign, to be wiped, GPT", Unknown, true, hal.GPT, "c12a7328-f81f-11d2-ba4b-00a0c93ec93b", nil},
		{"GPT, to be wiped for an MBR", ImageGPT, true, hal.MBR, "0c", nil},
		{"foreign", Unknown, false, hal.GPT, "", hal.ErrInvalid},
		{"an image", ImageGPT, false, hal.GPT, "", hal.ErrInvalid},
		{"an MBR", ImageMBR, false, hal.MBR, "", hal.ErrInvalid},
		{"no table", BlankDisk, false, hal.NoTable, "", hal.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			disk := r.NewDisk(t, c.kind, 64*mib)
			before := r.Found(t, disk)
			device := ""
			err := r.Provisioner.Install(hal.Install{
				Disk: disk, Wipe: c.wipe, Table: c.table, Size: bootSize, Boot: bytes.NewReader(bootContent()),
				Complete: func(d string) error { device = d; return nil },
			})
			expect(t, "Install", err, c.want)
			found := r.Found(t, disk)
			if c.want != nil {
				if len(found) != len(before) || device != "" {
					t.Errorf("a disk that is not to be installed has %+v, device %q; want it as it was", found, device)
				}
				return
			}
			if len(found) != 2 || found[0].Table != c.table || found[1].Start != mib || found[1].Size != bootSize || found[1].Type != c.kinds || device == "" {
				t.Fatalf("the disk has %+v, device %q; want a boot partition of type %s alone", found, device, c.kinds)
			}
			if c.table == hal.GPT {
				must(t, "Provision", r.Provisioner.Provision(hal.Provision{Disk: disk, Volumes: stateAndEphemeral()}))
				if got := volumes(t, r, disk); len(got) != 2 || got[0].Number != 2 {
					t.Errorf("beside the boot partition there is %+v; want the volumes", got)
				}
			}
		})
	}
	for _, table := range []hal.Table{hal.GPT, hal.MBR} {
		t.Run("cut", func(t *testing.T) { installIsCut(t, newRig(t), table) })
	}
	t.Run("small", func(t *testing.T) {
		r := newRig(t)
		disk := r.NewDisk(t, BlankDisk, 64*mib)
		i := hal.Install{Disk: disk, Table: hal.GPT, Size: 64 * mib, Boot: bytes.NewReader(nil), Complete: completed}
		expect(t, "Install of more than the disk has", r.Provisioner.Install(i), hal.ErrNoSpace)
		i.Disk, i.Size = "/dev/no-such-disk", bootSize
		expect(t, "Install on no disk", r.Provisioner.Install(i), hal.ErrNoDevice)
	})
}

func completed(string) error { return nil }

// installIsCut ends an installation while the partition is read, and while it is
// completed. Neither leaves a partition, and the third is as on a blank disk.
func installIsCut(t *testing.T, r ProvisionerRig, table hal.Table) {
	disk := r.NewDisk(t, BlankDisk, 64*mib)
	cut := errors.New("the link is down")
	i := hal.Install{Disk: disk, Table: table, Size: bootSize, Complete: completed}
	i.Boot = io.MultiReader(bytes.NewReader(bootContent()[:bootSize/2]), failing{cut})
	expect(t, "Install from a link that is cut", r.Provisioner.Install(i), cut)
	if found := r.Found(t, disk); len(found) != 1 {
		t.Errorf("after the cut there is %+v; want no partition", found)
	}
	i.Boot, i.Complete = bytes.NewReader(bootContent()), func(string) error { return cut }
	expect(t, "Install that is not completed", r.Provisioner.Install(i), cut)
	if found := r.Found(t, disk); len(found) != 1 {
		t.Errorf("after one that was not completed there is %+v; want no partition", found)
	}
	i.Boot, i.Complete = bytes.NewReader(bootContent()), completed
	must(t, "Install again", r.Provisioner.Install(i))
	if found := r.Found(t, disk); len(found) != 2 || found[0].Table != table {
		t.Errorf("after the third call there is %+v; want a boot partition", found)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
