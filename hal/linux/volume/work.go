package volume

import (
	"encoding/binary"
	"fmt"

	"machined/hal"
	"machined/hal/signature"
)

// work is one call of Provision.
type work struct {
	p     *Provisioner
	disk  *opened
	table *signature.Table
	gpt   signature.GPT // as it is to be, with the volumes planned so far
	steps []step
}

// step is one volume.
type step struct {
	label  string
	extent Extent
	exists bool
	gpt    signature.GPT // with the volume's entry
}

// plan finds a place for each volume. Nothing is written before all have one.
func (w *work) plan(volumes []hal.NewVolume) error {
	if w.table.Hybrid {
		return fmt.Errorf("its GPT has partitions in an MBR beside: %w", hal.ErrInvalid)
	}
	if w.table.Kind == hal.MBR && len(w.table.Partitions) == 0 {
		return fmt.Errorf("its MBR has no boot partition, so it is not ours: %w", hal.ErrInvalid)
	}
	if w.table.Kind == hal.GPT {
		w.gpt = *w.base()
	}
	for _, v := range volumes {
		if err := w.checkDuplicates(v.Label); err != nil {
			return err
		}
		s, err := w.planVolume(v)
		if err != nil {
			return err
		}
		w.steps = append(w.steps, s)
	}
	return nil
}

// base is the copy of the GPT that counts.
func (w *work) base() *signature.GPT {
	if w.table.Primary != nil {
		return w.table.Primary
	}
	return w.table.Backup
}

// checkDuplicates refuses a disk on which two partitions could be the volume.
func (w *work) checkDuplicates(label string) error {
	named := candidates(w.table, label)
	for _, p := range w.table.Partitions {
		if w.table.Kind != hal.MBR || p.Type != mbrType || p.Size <= 0 || p.Number == mbrPlace(label) {
			continue
		}
		c, err := signature.Read(section{ReaderAt: w.disk, start: p.Start, size: p.Size}, p.Size)
		if err != nil {
			return fmt.Errorf("look at partition %d: %w", p.Number, err)
		}
		if c.Label == label {
			named = append(named, p)
		}
	}
	if len(named) > 1 {
		return fmt.Errorf("partitions %d and %d are both called %s: rename one: %w", named[0].Number, named[1].Number, label, hal.ErrInvalid)
	}
	return nil
}

func (w *work) planVolume(v hal.NewVolume) (step, error) {
	if named := candidates(w.table, v.Label); len(named) > 0 {
		p := named[0]
		if !ours(w.table, p) {
			return step{}, fmt.Errorf("partition %d is in the place of %s and of type %s; it is left alone: %w", p.Number, v.Label, p.Type, hal.ErrInvalid)
		}
		return step{label: v.Label, extent: Extent{Number: p.Number, Start: p.Start, Size: p.Size}, exists: true, gpt: w.gpt}, nil
	}
	e, err := w.place(v)
	if err != nil {
		return step{}, err
	}
	planned := signature.Partition{Number: e.Number, Start: e.Start, Size: e.Size, Type: mbrType}
	if w.table.Kind == hal.GPT {
		w.gpt = addEntry(w.gpt, w.disk.block, e, v.Label, w.p.uuid())
		planned.Type, planned.Label = linuxType, v.Label
	}
	w.table.Partitions = append(w.table.Partitions, planned)
	return step{label: v.Label, extent: e, gpt: w.gpt}, nil
}

// place finds free space, and a number.
func (w *work) place(v hal.NewVolume) (Extent, error) {
	start, length := w.table.Largest()
	size := (v.Size + mib - 1) / mib * mib
	if size == 0 {
		size = length
	}
	if size > length || size < hal.MinVolume {
		return Extent{}, fmt.Errorf("%d bytes are free in one piece and %s needs %d: %w", length, v.Label, max(size, hal.MinVolume), hal.ErrNoSpace)
	}
	number := mbrPlace(v.Label)
	if w.table.Kind == hal.GPT {
		number = freeEntry(&w.gpt)
	}
	if number == 0 {
		return Extent{}, fmt.Errorf("the partition table has no entry for %s: %w", v.Label, hal.ErrInvalid)
	}
	return Extent{Number: number, Start: start, Size: size}, nil
}

// repair makes both copies of a GPT whole. Linux by itself does not look at
// the backup.
func (w *work) repair() error {
	if w.table.Kind != hal.GPT || wholeGPT(w.disk, w.table) {
		return nil
	}
	lost := w.table.Primary == nil
	if err := writeGPT(w.disk, *w.base()); err != nil {
		return err
	}
	if lost {
		return w.disk.Reread() // the kernel saw no partitions, so none is in use
	}
	return nil
}

func (w *work) do(s step) error {
	if s.exists {
		return w.finish(s)
	}
	if err := w.p.makeExt4(part{opened: w.disk, extent: s.extent}, s.extent.Size, s.label, false); err != nil {
		return fmt.Errorf("write its file system: %w", err)
	}
	add := func() error { return writeGPT(w.disk, s.gpt) }
	if w.table.Kind == hal.MBR {
		add = func() error { return addToMBR(w.disk, s.extent) }
	}
	if err := add(); err != nil {
		return fmt.Errorf("add it to the partition table: %w", err)
	}
	_, err := w.p.disks.AddPartition(w.disk.path, s.extent.Number, s.extent.Start, s.extent.Size)
	return err
}

// addToMBR writes an entry of the table, in one sector.
func addToMBR(disk *opened, e Extent) error {
	sector := make([]byte, 512)
	if _, err := disk.ReadAt(sector, 0); err != nil {
		return err
	}
	entry := sector[446+16*(e.Number-1):][:16]
	// The cylinders are beyond what such an entry can say.
	copy(entry, "\x00\xfe\xff\xff\x83\xfe\xff\xff")
	binary.LittleEndian.PutUint32(entry[8:], uint32(e.Start/disk.block))
	binary.LittleEndian.PutUint32(entry[12:], uint32(e.Size/disk.block))
	return update(disk, 0, sector)
}

// finish gives a partition that exists its file system, if that is missing
// and nothing else is there. Some other tool may have made the partition, and
// been cut before it made the file system.
func (w *work) finish(s step) error {
	path, err := w.p.disks.AddPartition(w.disk.path, s.extent.Number, s.extent.Start, s.extent.Size)
	if err != nil {
		return err
	}
	found, err := w.look(s, path)
	if err != nil || found.made && !found.marked {
		return err
	}
	device, err := w.p.volumeDevice(w.disk, path, s.extent, true)
	if err != nil {
		return fmt.Errorf("open partition %d for itself alone: %w", s.extent.Number, err)
	}
	defer device.Close()
	return w.finishOn(device, s)
}

func (w *work) look(s step, path string) (sight, error) {
	device, err := w.p.volumeDevice(w.disk, path, s.extent, false)
	if err != nil {
		return sight{}, fmt.Errorf("open partition %d: %w", s.extent.Number, err)
	}
	defer device.Close()
	found, err := look(device, s.extent.Size, s.label)
	if err != nil {
		return sight{}, fmt.Errorf("read partition %d: %w", s.extent.Number, err)
	}
	return found, nil
}

// finishOn looks once more, now that nobody else has the partition open.
func (w *work) finishOn(device Disk, s step) error {
	found, err := look(device, s.extent.Size, s.label)
	switch {
	case err != nil:
		return fmt.Errorf("read partition %d: %w", s.extent.Number, err)
	case found.made && !found.marked:
		return nil
	case found.made:
		// The mark must not outlive the making: it would have a volume whose
		// superblock is hurt one day made anew.
		if err := update(device, 0, make([]byte, markerSize)); err != nil {
			return fmt.Errorf("finish partition %d: %w", s.extent.Number, err)
		}
		return nil
	case !found.marked && !found.content.Blank:
		return fmt.Errorf("partition %d is in the place of %s but holds %s; it is left alone: save what is in it, then clear or remove it: %w",
			s.extent.Number, s.label, describe(found.content), hal.ErrInvalid)
	case s.extent.Size < hal.MinVolume:
		return fmt.Errorf("partition %d has %d bytes and needs %d: %w", s.extent.Number, s.extent.Size, int64(hal.MinVolume), hal.ErrNoSpace)
	}
	if err := w.p.makeExt4(device, s.extent.Size, s.label, true); err != nil {
		return fmt.Errorf("write its file system: %w", err)
	}
	return nil
}
