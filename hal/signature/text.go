package signature

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	lowerDigits = "0123456789abcdef"
	upperDigits = "0123456789ABCDEF"
)

// hexText writes b with the digits given, and a dash before each index in dashes.
func hexText(b []byte, digits string, dashes ...int) string {
	var out []byte
	for i, c := range b {
		for _, d := range dashes {
			if i == d {
				out = append(out, '-')
			}
		}
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

// uuidText writes 16 bytes in their order (RFC 9562); "" for 16 zero bytes.
func uuidText(b []byte) string {
	if zero(b) {
		return ""
	}
	return hexText(b, lowerDigits, 4, 6, 8, 10)
}

// guidText writes 16 bytes as a GPT has them, in lower case: the first three
// fields are little-endian (UEFI specification, appendix A).
func guidText(b []byte) string {
	return hexText([]byte{
		b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15],
	}, lowerDigits, 4, 6, 8, 10)
}

// serialText writes the serial number of a FAT, 12345678 as 1234-5678.
func serialText(b []byte) string {
	if zero(b) {
		return ""
	}
	return hexText([]byte{b[3], b[2], b[1], b[0]}, upperDigits, 2)
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// labelText reads a label that ends with the field or a zero byte. It is
// somebody else's text on its way to a terminal: what is no character is
// replaced.
func labelText(b []byte) string {
	s := string(b)
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return strings.TrimRight(printable(s), " ")
}

// utf16Text is labelText for little-endian UTF-16.
func utf16Text(b []byte) string {
	var units []uint16
	for ; len(b) >= 2; b = b[2:] {
		u := binary.LittleEndian.Uint16(b)
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return strings.TrimRight(printable(string(utf16.Decode(units))), " ")
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return utf8.RuneError
		}
		return r
	}, s)
}
