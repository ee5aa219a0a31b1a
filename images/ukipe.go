package images

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// What of a PE file is read and written, after Microsoft's specification "PE
// Format". All numbers are little endian.
const (
	peOffsetAt      = 0x3c // in the MS-DOS header: offset of the signature
	peHeaderSize    = 24   // signature and COFF header, bytes
	sectionHeader   = 40   // bytes
	maxStub         = 1 << 20
	maxPEHeaders    = 64 << 10
	peMagic64       = 0x20b      // PE32+
	initializedData = 0x40000040 // IMAGE_SCN_CNT_INITIALIZED_DATA, IMAGE_SCN_MEM_READ
)

// Offsets from the signature.
const (
	coffSections     = 6
	coffSymbols      = 12 // pointer and number
	coffOptionalSize = 20
)

// Offsets in the optional header of PE32+.
const (
	optInitialized   = 8 // SizeOfInitializedData
	optSectionAlign  = 32
	optFileAlign     = 36
	optSizeOfImage   = 56
	optSizeOfHeaders = 60
	optCheckSum      = 64
	optLeast         = 112       // its size without data directories
	optSecurity      = 112 + 4*8 // the data directory of a signature
)

// Offsets in a section's header, behind its name.
const (
	secVirtualSize     = 8
	secVirtualAddress  = 12
	secRawSize         = 16
	secRawOffset       = 20
	secCharacteristics = 36
)

// peFile is what of a PE file's headers matters here, in bytes.
type peFile struct {
	coff, optional, table   int64 // offsets in the file
	sections                int
	sectionAlign, fileAlign int64
	imageSize, headerSize   int64
	memoryEnd, fileEnd      int64 // behind the last section
}

// parsePE reads the headers of a 64-bit PE file that begins with text.
func parsePE(text []byte) (peFile, error) {
	le := binary.LittleEndian
	short := errors.New("its headers are cut short")
	if len(text) < peOffsetAt+4 || string(text[:2]) != "MZ" {
		return peFile{}, errors.New("it is no EFI program: it does not begin with MZ")
	}
	p := peFile{coff: int64(le.Uint32(text[peOffsetAt:]))}
	p.optional = p.coff + peHeaderSize
	if p.optional+optLeast > int64(len(text)) {
		return peFile{}, short
	}
	if string(text[p.coff:p.coff+4]) != "PE\x00\x00" || le.Uint16(text[p.optional:]) != peMagic64 {
		return peFile{}, errors.New("it is no EFI program: it has no header of a 64-bit PE file")
	}
	p.sections = int(le.Uint16(text[p.coff+coffSections:]))
	p.table = p.optional + int64(le.Uint16(text[p.coff+coffOptionalSize:]))
	if p.table < p.optional+optLeast || p.table+int64(p.sections)*sectionHeader > int64(len(text)) {
		return peFile{}, short
	}
	number := func(at int64) int64 { return int64(le.Uint32(text[p.optional+at:])) }
	p.sectionAlign, p.fileAlign = number(optSectionAlign), number(optFileAlign)
	p.imageSize, p.headerSize = number(optSizeOfImage), number(optSizeOfHeaders)
	for i := range p.sections {
		s := text[p.table+int64(i)*sectionHeader:]
		of := func(at int) int64 { return int64(le.Uint32(s[at:])) }
		p.memoryEnd = max(p.memoryEnd, of(secVirtualAddress)+max(of(secVirtualSize), of(secRawSize)))
		p.fileEnd = max(p.fileEnd, of(secRawOffset)+of(secRawSize))
	}
	return p, nil
}

// checkStub refuses a stub of size bytes that add sections cannot be added to.
func (p peFile) checkStub(size, add int64) error {
	room := p.headerSize - p.table - int64(p.sections)*sectionHeader
	switch {
	case !isPower(p.sectionAlign, 1<<20) || !isPower(p.fileAlign, 1<<16):
		return fmt.Errorf("it aligns sections to %d bytes in memory and %d in the file, which cannot be", p.sectionAlign, p.fileAlign)
	case p.fileEnd > size || p.headerSize > p.fileEnd || p.sections == 0:
		return errors.New("its sections are not within the file")
	case room < add*sectionHeader:
		return fmt.Errorf("its header has %d bytes left, and %d sections need %d", room, add, add*sectionHeader)
	}
	return nil
}

// isPower reports whether n is a power of two from a sector to most.
func isPower(n, most int64) bool { return n >= sectorSize && n <= most && n&(n-1) == 0 }
