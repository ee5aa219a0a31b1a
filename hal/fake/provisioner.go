package fake

import (
	"strconv"

	"machined/hal"
)

// Provisioner is a simulated hal.Provisioner. It edits Blocks as the real one
// would have the kernel and the next scan change it.
//
// The fault "Provision" fails a call before it does anything, "Wipe" after the
// old content is gone and before there is a new table, and "Volume" counts the
// volumes: Fail("Volume", 2, err) cuts a call after its first.
type Provisioner struct {
	Faults
	Blocks *BlockDevices
	// Calls counts those of Provision.
	Calls int
	// Boot is what Install has written last.
	Boot []byte

	made int // volumes so far, for their UUIDs
}

const (
	linuxGUID = "0fc63daf-8483-4772-8e79-3d69d8477de4" // of a Linux file system in a GPT
	linuxMBR  = "83"
	efiGUID   = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b" // of an EFI system partition
)

// Provision implements hal.Provisioner.
func (p *Provisioner) Provision(r hal.Provision) error {
	p.Calls++
	if err := p.failing("Provision"); err != nil {
		return err
	}
	if err := checkVolumes(r.Volumes); err != nil {
		return err
	}
	disk, ok := p.Blocks.byPath(r.Disk)
	switch {
	case !ok:
		return hal.ErrNoDevice
	case disk.Number > 0:
		return hal.ErrInvalid
	case disk.ReadOnly:
		return ErrReadOnly
	}
	if err := p.prepare(&disk, r); err != nil {
		return err
	}
	return p.makeAll(disk, r.Volumes)
}

// Erase implements hal.Provisioner. A volume is one piece to it.
func (p *Provisioner) Erase(path string, which hal.DataVolume, moved func()) error {
	if err := p.failing("Erase"); err != nil {
		return err
	}
	disk, ok := p.Blocks.byPath(path)
	switch {
	case which.String() == "":
		return hal.ErrInvalid
	case !ok:
		return hal.ErrNoDevice
	}
	for _, part := range p.Blocks.partitions(disk.Name) {
		label := which.String()
		if part.Type != linuxGUID && part.Type != linuxMBR ||
			disk.Table == hal.GPT && part.Label != label || disk.Table == hal.MBR && part.Number != mbrPlace(label) {
			continue
		}
		if p.mounted(part.Path) {
			return ErrBusy
		}
		part.FS, part.FSLabel, part.FSUUID, part.Blank = "", "", "", true
		p.Blocks.Change(part)
		moved()
	}
	return nil
}

// Install implements hal.Provisioner. The fault "Boot" cuts a call in the middle
// of the partition's content.
func (p *Provisioner) Install(i hal.Install) error {
	if err := p.failing("Install"); err != nil {
		return err
	}
	disk, ok := p.Blocks.byPath(i.Disk)
	switch {
	case !ok:
		return hal.ErrNoDevice
	case disk.Number > 0, i.Table != hal.GPT && i.Table != hal.MBR, i.Size <= 0, i.Size%mib != 0, i.Boot == nil, i.Complete == nil:
		return hal.ErrInvalid
	case disk.ReadOnly:
		return ErrReadOnly
	}
	if !i.Wipe && (disk.Table != hal.NoTable || !disk.Blank) && !p.begun(disk) {
		return hal.ErrInvalid
	}
	if err := p.prepare(&disk, hal.Provision{Disk: i.Disk, Wipe: true, Volumes: []hal.NewVolume{{Label: "EFI", Size: i.Size + 2*mib}}}); err != nil {
		return err
	}
	p.Boot = p.Boot[:0]
	for b := make([]byte, 64<<10); int64(len(p.Boot)) < i.Size; {
		n, err := i.Boot.Read(b[:min(int64(len(b)), i.Size-int64(len(p.Boot)))])
		p.Boot = append(p.Boot, b[:n]...)
		if err != nil && int64(len(p.Boot)) < i.Size {
			return err
		}
		if err := p.failing("Boot"); err != nil {
			return err
		}
	}
	boot := hal.BlockDevice{Disk: disk.Name, Number: 1, Start: mib, Size: i.Size, Type: "0c", FS: "vfat", FSLabel: "MACHINED"}
	if i.Table == hal.GPT {
		boot.Type, boot.Label = efiGUID, "EFI"
	}
	p.Blocks.AddPartition(boot)
	for _, d := range p.Blocks.partitions(disk.Name) {
		if err := i.Complete(d.Path); err != nil {
			p.Blocks.Remove(d.Name)
			return err
		}
	}
	disk.Table = i.Table
	p.Blocks.Change(disk)
	return nil
}

// begun reports whether a disk has nothing but an empty GPT.
func (p *Provisioner) begun(disk hal.BlockDevice) bool {
	return disk.Table == hal.GPT && len(p.Blocks.partitions(disk.Name)) == 0
}

// checkVolumes refuses what no disk can have.
func checkVolumes(volumes []hal.NewVolume) error {
	for i, v := range volumes {
		if !validLabel(v.Label) || v.Size < 0 || v.Size > 0 && v.Size < hal.MinVolume || v.Size == 0 && i != len(volumes)-1 {
			return hal.ErrInvalid
		}
		for _, other := range volumes[:i] {
			if other.Label == v.Label {
				return hal.ErrInvalid
			}
		}
		if v.Size > 1<<56 {
			return hal.ErrNoSpace
		}
	}
	return nil
}

func validLabel(s string) bool {
	for _, c := range []byte(s) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 16
}

// prepare wipes, and gives a blank disk its table.
func (p *Provisioner) prepare(disk *hal.BlockDevice, r hal.Provision) error {
	if !r.Wipe && disk.Trouble == "" && disk.Table != hal.NoTable {
		return nil
	}
	if !r.Wipe && !disk.Blank {
		return hal.ErrInvalid
	}
	if p.inUse(disk.Name) {
		return ErrBusy
	}
	need := int64(2 * mib)
	for _, v := range r.Volumes {
		need += max(wholeMiB(v.Size), hal.MinVolume)
	}
	if disk.Size < need {
		return hal.ErrNoSpace
	}
	for _, part := range p.Blocks.partitions(disk.Name) {
		p.Blocks.Remove(part.Name)
	}
	disk.FS, disk.FSLabel, disk.FSUUID, disk.Trouble = "", "", "", ""
	disk.Table, disk.Blank = hal.NoTable, true
	p.Blocks.Change(*disk)
	if err := p.failing("Wipe"); err != nil {
		return err
	}
	disk.Table, disk.Blank = hal.GPT, false
	p.Blocks.Change(*disk)
	return nil
}

func (p *Provisioner) inUse(disk string) bool {
	for _, d := range p.Blocks.Devices() {
		if d.Disk == disk && p.mounted(d.Path) {
			return true
		}
	}
	return false
}

func (p *Provisioner) mounted(path string) bool {
	if p.Blocks.Mounts == nil {
		return false
	}
	for _, m := range p.Blocks.Mounts.mounts {
		if m.Source == path {
			return true
		}
	}
	return false
}

const mib = 1 << 20

func wholeMiB(size int64) int64 { return (size + mib - 1) / mib * mib }

// makeAll finds a place for each volume, and then makes one after the other.
func (p *Provisioner) makeAll(disk hal.BlockDevice, volumes []hal.NewVolume) error {
	if disk.Table == hal.MBR && len(p.Blocks.partitions(disk.Name)) == 0 {
		return hal.ErrInvalid
	}
	plan := BlockDevices{devices: append([]hal.BlockDevice(nil), p.Blocks.devices...)}
	var parts []hal.BlockDevice
	for _, v := range volumes {
		part, err := p.place(&plan, disk, v)
		if err != nil {
			return err
		}
		plan.AddPartition(part)
		parts = append(parts, part)
	}
	for i, part := range parts {
		if part.FS == "ext4" {
			continue // it exists
		}
		if err := p.failing("Volume"); err != nil {
			return err
		}
		if part.Name != "" && !part.Blank {
			return hal.ErrInvalid // something else is in its place
		}
		if part.Size < hal.MinVolume {
			return hal.ErrNoSpace
		}
		p.made++
		part.FS, part.FSLabel, part.Blank = "ext4", volumes[i].Label, false
		part.FSUUID = "00000000-0000-4000-8000-" + padded(p.made)
		p.Blocks.AddPartition(part)
	}
	return nil
}

// padded writes n with twelve digits.
func padded(n int) string {
	s := strconv.Itoa(n)
	return "000000000000"[len(s):] + s
}

// place returns the volume's partition: one that is there, with its name, or
// one to be made.
func (p *Provisioner) place(plan *BlockDevices, disk hal.BlockDevice, v hal.NewVolume) (hal.BlockDevice, error) {
	var named []hal.BlockDevice
	for _, part := range plan.partitions(disk.Name) {
		inPlace := disk.Table == hal.GPT && part.Label == v.Label || disk.Table == hal.MBR && part.Number == mbrPlace(v.Label)
		if inPlace || disk.Table == hal.MBR && part.Type == linuxMBR && part.FSLabel == v.Label {
			named = append(named, part)
		}
	}
	if len(named) > 1 {
		return hal.BlockDevice{}, hal.ErrInvalid
	}
	if len(named) == 1 {
		return checkExisting(disk, named[0], v.Label)
	}
	part := hal.BlockDevice{Disk: disk.Name, Number: mbrPlace(v.Label), Type: linuxMBR}
	if disk.Table == hal.GPT {
		part.Number, part.Type, part.Label = freeNumber(plan, disk.Name), linuxGUID, v.Label
	}
	if part.Number == 0 {
		return hal.BlockDevice{}, hal.ErrInvalid
	}
	var length int64
	part.Start, length = plan.largest(disk)
	part.Size = wholeMiB(v.Size)
	if part.Size == 0 {
		part.Size = length
	}
	if part.Size > length || part.Size < hal.MinVolume {
		return hal.BlockDevice{}, hal.ErrNoSpace
	}
	return part, nil
}

// checkExisting refuses what is of another type. What holds something else is
// refused later, as by the real one: the volumes before it are made.
func checkExisting(disk, part hal.BlockDevice, label string) (hal.BlockDevice, error) {
	want := linuxGUID
	if disk.Table == hal.MBR {
		want = linuxMBR
	}
	if part.Type != want || disk.Table == hal.MBR && part.Number != mbrPlace(label) {
		return hal.BlockDevice{}, hal.ErrInvalid
	}
	if part.FS == "ext4" && part.FSLabel != label {
		part.FS = "ext4 of another label"
	}
	return part, nil
}

// mbrPlace is a volume's number in an MBR; 0 for one that has none.
func mbrPlace(label string) int {
	switch label {
	case "STATE":
		return 2
	case "EPHEMERAL":
		return 3
	}
	return 0
}

func freeNumber(b *BlockDevices, disk string) int {
	last := 0
	for _, p := range b.partitions(disk) {
		last = max(last, p.Number)
	}
	return last + 1
}

var _ hal.Provisioner = (*Provisioner)(nil)
