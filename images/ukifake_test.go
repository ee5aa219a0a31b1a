package images_test

import (
	"bytes"
	"encoding/binary"
)

// fakePE makes a PE32+ file with one section, which holds text.
func fakePE(text string, sectionAlign, fileAlign uint32) []byte {
	le := binary.LittleEndian
	const pe, optional, headers = 64, 64 + 24, 1024
	out := make([]byte, headers)
	copy(out, "MZ")
	le.PutUint32(out[0x3c:], pe)
	copy(out[pe:], "PE\x00\x00\x64\x86")
	le.PutUint16(out[pe+6:], 1)
	le.PutUint32(out[pe+12:], headers+512) // symbols, with none in the table
	le.PutUint16(out[pe+20:], 240)
	le.PutUint16(out[optional:], 0x20b)
	le.PutUint32(out[optional+16:], 4096) // entry
	le.PutUint32(out[optional+32:], sectionAlign)
	le.PutUint32(out[optional+36:], fileAlign)
	le.PutUint32(out[optional+56:], 4096+8192) // image
	le.PutUint32(out[optional+60:], headers)
	le.PutUint32(out[optional+64:], 0xdead) // checksum
	le.PutUint32(out[optional+108:], 16)
	section := out[optional+240:]
	copy(section, ".text")
	le.PutUint32(section[8:], uint32(len(text)))
	le.PutUint32(section[12:], 4096)
	le.PutUint32(section[16:], 512)
	le.PutUint32(section[20:], headers)
	le.PutUint32(section[36:], 0x60000020)
	return append(out, append([]byte(text), bytes.Repeat([]byte{0xcc}, 512-len(text))...)...)
}
