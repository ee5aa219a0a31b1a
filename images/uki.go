package images

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// ukiSection is a section to be added to a stub.
type ukiSection struct {
	name string
	size int64 // bytes in the file
	// memory is what it takes there, if that is more; zeros are behind it.
	memory int64
	open   func() (io.ReadCloser, error)
	// offset is where its content begins in the UKI, once that is laid out.
	offset int64
}

// ukiAlignment is that of sections in memory, in bytes.
const ukiAlignment = 4096

// dataSection holds data.
func dataSection(name string, data []byte) ukiSection {
	return ukiSection{name: name, size: int64(len(data)), open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// kernelSection is .linux. A kernel takes more memory than its file has; what is
// behind the section must not be in the way when it runs in its place, and so it
// is the last one (as ukify(1) has it).
func kernelSection(size int64, open func() (io.ReadCloser, error)) (ukiSection, error) {
	s := ukiSection{name: ".linux", size: size, open: open}
	r, err := open()
	if err != nil {
		return s, err
	}
	defer r.Close()
	head, err := io.ReadAll(io.LimitReader(r, min(size, maxPEHeaders)))
	if err != nil {
		return s, err
	}
	p, err := parsePE(head)
	if err != nil {
		return s, fmt.Errorf("use the kernel in a UKI: %w", err)
	}
	s.memory = max(p.imageSize, size)
	return s, nil
}

// layoutUKI returns the stub with its headers for the sections. They are placed
// behind each other, in the file as well as in memory: there at multiples of 4 KiB
// after all that the stub has.
func layoutUKI(stub []byte, sections []ukiSection) ([]byte, error) {
	p, err := parsePE(stub)
	if err == nil {
		err = p.checkStub(int64(len(stub)), int64(len(sections)))
	}
	if err != nil {
		return nil, fmt.Errorf("use the stub of systemd: %w", err)
	}
	le := binary.LittleEndian
	out := bytes.Clone(stub[:p.fileEnd]) // without the symbols that may follow
	out = append(out, make([]byte, alignUp(p.fileEnd, p.fileAlign)-p.fileEnd)...)
	memoryAlign := max(ukiAlignment, p.sectionAlign)
	memory, file := alignUp(max(p.memoryEnd, p.imageSize), memoryAlign), int64(len(out))
	first := file
	for i := range sections {
		s := &sections[i]
		raw, inMemory := alignUp(s.size, p.fileAlign), max(s.size, s.memory)
		if memory+inMemory > math.MaxInt32 || file+raw > math.MaxInt32 {
			return nil, fmt.Errorf("place section %s of %d bytes: a UKI has less than 2 GiB", s.name, s.size)
		}
		header := out[p.table+int64(p.sections+i)*sectionHeader:][:sectionHeader]
		clear(header)
		copy(header[:8], s.name)
		le.PutUint32(header[secVirtualSize:], uint32(inMemory))
		le.PutUint32(header[secVirtualAddress:], uint32(memory))
		le.PutUint32(header[secRawSize:], uint32(raw))
		le.PutUint32(header[secRawOffset:], uint32(file))
		le.PutUint32(header[secCharacteristics:], initializedData)
		s.offset = file
		memory, file = alignUp(memory+inMemory, memoryAlign), file+raw
	}
	p.finish(out, len(sections), memory, file-first)
	return out, nil
}

// finish writes what the headers say of the whole file.
func (p peFile) finish(out []byte, sections int, memory, added int64) {
	le := binary.LittleEndian
	le.PutUint16(out[p.coff+coffSections:], uint16(p.sections+sections))
	clear(out[p.coff+coffSymbols:][:8])
	optional := out[p.optional:p.table]
	le.PutUint32(optional[optInitialized:], uint32(int64(le.Uint32(optional[optInitialized:]))+added))
	le.PutUint32(optional[optSizeOfImage:], uint32(memory))
	clear(optional[optCheckSum:][:4]) // UEFI does not look at it
	if len(optional) >= optSecurity+8 {
		clear(optional[optSecurity:][:8]) // a signature of the stub is not this file's
	}
}

func alignUp(n, to int64) int64 { return (n + to - 1) / to * to }

// writeUKI writes a unified kernel image (UAPI.5): the stub of systemd
// (systemd-stub(7)) with the kernel, its initramfs and its arguments as further
// sections. It sets their offsets in the file.
func writeUKI(w io.Writer, stub []byte, sections []ukiSection) error {
	head, err := layoutUKI(stub, sections)
	if err != nil {
		return err
	}
	p, err := parsePE(head)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	at := int64(len(head))
	for _, s := range sections {
		// The padding of the section before it.
		if _, err := w.Write(make([]byte, s.offset-at)); err != nil {
			return err
		}
		if err := copySection(w, s); err != nil {
			return fmt.Errorf("write section %s: %w", s.name, err)
		}
		at = s.offset + s.size
	}
	_, err = w.Write(make([]byte, p.fileEnd-at))
	return err
}

func copySection(w io.Writer, s ukiSection) error {
	r, err := s.open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(w, r)
	if err == nil && n != s.size {
		err = fmt.Errorf("it has %d bytes, and %d were announced", n, s.size)
	}
	return err
}
