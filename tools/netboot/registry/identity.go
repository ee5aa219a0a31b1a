package registry

import "strings"

// A Raspberry Pi has two forms of its serial number: eight hex digits in DHCP and
// TFTP, and 16, which end in those, in its device tree.
const piDigits, piLongDigits = 8, 16

// ShortSerial returns the last eight digits of a serial number of 16 hex digits, as
// Name has them, "" for any other.
func ShortSerial(serial string) string {
	s := Name(serial)
	if len(s) != piLongDigits || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s[piLongDigits-piDigits:]
}

// SameSerial reports whether two serial numbers can be one board's: they are equal,
// or one is the short form of the other.
func SameSerial(a, b string) bool {
	a, b = Name(a), Name(b)
	return a != "" && b != "" && (a == b || ShortSerial(a) == b || a == ShortSerial(b))
}

// firmware is what a board's firmware has said of it, by DHCP or by the names that it
// asks TFTP for.
type firmware struct {
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// known reports whether a board has a config of its own. Where boards that nobody
// knows are not accepted, what a node says of itself while it enrolls does not count:
// any machine that has loaded a token can claim a serial number.
func (r *Registry) known(e *entry) bool {
	b := e.Board
	if r.Unknown == Hold || r.Unknown == Ignore {
		b.UUID, b.Serial = e.firmware.UUID, e.firmware.Serial
		if Name(b.MAC) != b.ID { // the link did not tell it
			b.MAC = ""
		}
	}
	return r.Known(b)
}

func (r *Registry) console(b Board) string {
	for _, name := range []string{b.ID, b.MAC, b.Serial} {
		if at, ok := r.Consoles[Name(name)]; ok && name != "" {
			return Clean(at)
		}
	}
	for name, at := range r.Consoles {
		if SameSerial(name, b.Serial) {
			return Clean(at)
		}
	}
	return ""
}
