package resource

import (
	"strconv"

	"machined/hal"
)

// Key names a resource within its kind. Kinds use the fields that they need:
// a link has a name, an address a link and a prefix. Addresses are in their
// canonical form, so that keys compare by meaning. A key without a prefix has
// neither gateway nor number.
type Key struct {
	Name    string
	Prefix  hal.Prefix
	Gateway hal.Address
	Number  uint32
}

// Named returns the key of a resource that has a name alone.
func Named(name string) Key { return Key{Name: name} }

// String returns the id of the resource in the API.
func (k Key) String() string {
	if k.Prefix.Address.Len == 0 {
		return k.Name
	}
	id := k.Name + "/" + k.Prefix.String()
	if k.Gateway.Len != 0 {
		id += ">" + k.Gateway.String()
	}
	if k.Number != 0 {
		id += "#" + strconv.FormatUint(uint64(k.Number), 10)
	}
	return id
}

// Same is ==, and fast for the keys that have a name alone.
func (k *Key) Same(other *Key) bool {
	if k.Prefix.Address.Len == 0 || other.Prefix.Address.Len == 0 {
		return k.Prefix.Address.Len == other.Prefix.Address.Len && k.Name == other.Name
	}
	return *k == *other
}

// Hash returns a number that is the same for keys that are the same.
func (k *Key) Hash() uint32 {
	const prime = 0x9e3779b97f4a7c15
	// Words at a time, which may overlap: a byte at a time would cost more
	// than all the rest of a look-up.
	h := uint64(len(k.Name))
	switch name := k.Name; {
	case len(name) >= 8:
		for n := name; len(n) > 8; n = n[8:] {
			h = (h ^ word(n)) * prime
			h ^= h >> 32
		}
		h ^= word(name[len(name)-8:])
	case len(name) >= 4:
		h ^= half(name) | half(name[len(name)-4:])<<32
	case len(name) > 0:
		h ^= uint64(name[0]) | uint64(name[len(name)/2])<<8 | uint64(name[len(name)-1])<<16
		h <<= 8
	}
	// Multiplication carries upwards only: fold, multiply, take the top.
	h = (h ^ h>>32) * prime
	if k.Prefix.Address.Len != 0 {
		h = mix(h, &k.Prefix.Address)
		h = mix(h, &k.Gateway)
		h = (h ^ uint64(k.Prefix.Bits) ^ uint64(k.Number)<<8) * prime
	}
	return uint32(h >> 32)
}

// half reads four bytes, little-endian.
func half(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

func mix(h uint64, a *hal.Address) uint64 {
	const prime = 0x9e3779b97f4a7c15
	for i := 0; i < int(a.Len); i += 4 {
		w := uint64(a.Bytes[i]) | uint64(a.Bytes[i+1])<<8 | uint64(a.Bytes[i+2])<<16 | uint64(a.Bytes[i+3])<<24
		h = (h ^ w) * prime
		h ^= h >> 29
	}
	return h
}

// word reads eight bytes, little-endian; the compiler makes one load of it.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
