package config

import (
	"fmt"
	"strings"
)

// Volumes of the node that a service may wait for.
const (
	VolumeState     = "STATE"
	VolumeEphemeral = "EPHEMERAL"
)

func parseVolume(s string) (string, error) {
	if s != VolumeState && s != VolumeEphemeral {
		return "", fmt.Errorf("want %s or %s; got %s", VolumeState, VolumeEphemeral, quote(s))
	}
	return s, nil
}

// The sizes of a ring of output, in bytes.
const minLogBytes, maxLogBytes = 8 << 10, 1 << 20

func parseLogBytes(s string) (ByteSize, error) {
	size, err := parseSize(s)
	if err == nil && (size < minLogBytes || size > maxLogBytes) {
		return 0, fmt.Errorf("want a size from %v to %v; got %s", ByteSize(minLogBytes), ByteSize(maxLogBytes), quote(s))
	}
	return size, err
}

// CapabilitySet is a set of capabilities: bit n is number n of capabilities(7).
type CapabilitySet uint64

// String returns the names in the order of their numbers, with a space between.
func (c CapabilitySet) String() string {
	var out []string
	for n, name := range capabilityNames() {
		if c>>n&1 == 1 {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// capabilities reads a list of names; an absent list is nil, and an empty one
// the empty set.
func (d *decoder) capabilities(v value) *CapabilitySet {
	if v.absent() {
		return nil
	}
	set := CapabilitySet(0)
	for _, item := range d.list(v) {
		if n, ok := CapabilityNumber(scalar(d, item, "", parseCapability)); ok {
			set |= 1 << n
		}
	}
	return &set
}
