package hal

import "strconv"

// String prints the address as RFC 5952 has it, and an absent one as "".
func (a Address) String() string { return string(a.append(nil)) }

func (a Address) append(out []byte) []byte {
	switch a.Len {
	case 4:
		for i, b := range a.Bytes[:4] {
			if i > 0 {
				out = append(out, '.')
			}
			out = strconv.AppendUint(out, uint64(b), 10)
		}
	case 16:
		out = a.append6(out)
	}
	return out
}

func (a Address) append6(out []byte) []byte {
	group := func(i int) uint64 { return uint64(a.Bytes[2*i])<<8 | uint64(a.Bytes[2*i+1]) }
	// The longest run of two or more zero groups, the first of equals, is "::".
	from, length := 8, 1
	for i := 0; i < 8; i++ {
		n := 0
		for i+n < 8 && group(i+n) == 0 {
			n++
		}
		if n > length {
			from, length = i, n
		}
	}
	for i := 0; i < 8; i++ {
		if i == from {
			out = append(out, "::"...)
			i += length - 1
			continue
		}
		if i > 0 && i != from+length {
			out = append(out, ':')
		}
		out = strconv.AppendUint(out, group(i), 16)
	}
	return out
}

// String prints the prefix as address/bits, and an absent one as "".
func (p Prefix) String() string {
	if p.Address.Len == 0 {
		return ""
	}
	return string(strconv.AppendUint(append(p.Address.append(nil), '/'), uint64(p.Bits), 10))
}

// Masked returns p without the bits of the host.
func (p Prefix) Masked() Prefix {
	for i := range p.Address.Bytes {
		switch free := 8*(i+1) - int(p.Bits); {
		case free >= 8:
			p.Address.Bytes[i] = 0
		case free > 0:
			p.Address.Bytes[i] &= 0xff << free
		}
	}
	return p
}

// Contains reports whether a is in the network of p.
func (p Prefix) Contains(a Address) bool {
	return a.Len != 0 && a.Len == p.Address.Len && Prefix{Address: a, Bits: p.Bits}.Masked() == p.Masked()
}
