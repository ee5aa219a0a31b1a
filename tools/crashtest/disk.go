package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"machined/images/fat32"
	"machined/tools/crashtest/judge"
	"machined/tools/crashtest/scenario"
)

// Sizes of the boot partition in bytes. FAT32 takes little less than the first;
// its clusters have one sector, those of the second eight, as on most boards.
const (
	smallVolume = 40 << 20
	largeVolume = 300 << 20
)

// format makes a boot partition of size bytes that holds a tree: the same bytes
// each time.
func format(w io.WriterAt, size int64, tree map[string][]byte) error {
	var files []fat32.File
	for name, data := range tree {
		files = append(files, fat32.File{Path: name, Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data)), nil
		}})
	}
	return fat32.Write(w, size, files, fat32.Options{
		Label: "BOOT", Serial: 1, Time: time.Unix(1_790_000_000, 0), HiddenSectors: scenario.BootOffset / 512,
	})
}

// makeDisk makes a disk whose boot partition, of size bytes, is written by fill,
// and a partition for notes.
func makeDisk(path string, size int64, fill func(boot io.WriterAt) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err = f.Truncate(scenario.BootOffset + size + scenario.NotesBytes); err == nil {
		_, err = f.WriteAt(partitionTable(size), 0)
	}
	if err == nil {
		err = fill(io.NewOffsetWriter(f, scenario.BootOffset))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("make the disk %s: %w", path, err)
	}
	return nil
}

// partitionTable is an MBR: 0x0c is FAT32, 0xda is data of no file system.
func partitionTable(size int64) []byte {
	mbr := make([]byte, 512)
	for i, p := range []struct {
		kind        byte
		start, size int64
	}{{0x0c, scenario.BootOffset, size}, {0xda, scenario.BootOffset + size, scenario.NotesBytes}} {
		entry := mbr[446+16*i:]
		entry[4] = p.kind
		binary.LittleEndian.PutUint32(entry[8:], uint32(p.start/512))
		binary.LittleEndian.PutUint32(entry[12:], uint32(p.size/512))
	}
	mbr[510], mbr[511] = 0x55, 0xaa
	return mbr
}

// saveImage keeps a boot partition for a look: a file that fsck.fat and mtools
// can read.
func saveImage(path string, v *judge.Volume, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), v.Save(f), f.Close())
}
