package piboot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/u-root/u-root/pkg/dt"
)

// maxTreeBytes bounds a device tree blob; real ones have less than 100 KB.
const maxTreeBytes = 1 << 20

// PatchDTB makes the device tree of a Raspberry Pi 3 with upstream names
// (bcm2837-rpi-3-a-plus.dtb) fit for QEMU's model of the board:
//
//   - The SD host at 7e202000 loses dmas and dma-names. QEMU's has no DMA and
//     reads as zeros through it; without, the driver falls back to PIO.
//   - The watchdog at 7e100000 loses all but its first register range. The
//     driver for power domains would take an external abort on the second.
//
// What a real board gets is not changed. A tree that is patched already comes
// back with the same contents.
func PatchDTB(dtb []byte) ([]byte, error) {
	if len(dtb) > maxTreeBytes {
		return nil, fmt.Errorf("piboot: a device tree of %d bytes is larger than %d; is it one?", len(dtb), maxTreeBytes)
	}
	if err := checkTree(dtb); err != nil {
		return nil, fmt.Errorf("piboot: the device tree of %d bytes: %w", len(dtb), err)
	}
	tree, err := dt.ReadFDT(bytes.NewReader(dtb))
	if err != nil {
		return nil, fmt.Errorf("piboot: parsing the device tree: %w", err)
	}
	host, err := socNode(tree, "mmc@7e202000")
	if err != nil {
		return nil, err
	}
	host.Properties = slices.DeleteFunc(host.Properties, func(p dt.Property) bool {
		return p.Name == "dmas" || p.Name == "dma-names"
	})
	watchdog, err := socNode(tree, "watchdog@7e100000")
	if err != nil {
		return nil, err
	}
	if err := keepFirstRange(watchdog); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err := tree.Write(&out); err != nil {
		return nil, fmt.Errorf("piboot: writing the patched device tree: %w", err)
	}
	return out.Bytes(), nil
}

// checkTree makes sure that no size in the blob exceeds it. The parser would
// allocate what it is told, and a slot that was half written can say anything.
// Layout: Devicetree Specification 0.4, chapter 5.
func checkTree(dtb []byte) error {
	const (
		headerBytes   = 40
		totalSize     = 4 // offsets of the header's fields
		structOffset  = 8
		stringsOffset = 12
		stringsSize   = 32
		structSize    = 36
	)
	if len(dtb) < headerBytes {
		return errors.New("it is cut short")
	}
	field := func(at int) int64 { return int64(binary.BigEndian.Uint32(dtb[at:])) }
	size := int64(len(dtb))
	if field(totalSize) > size || field(structOffset)+field(structSize) > size || field(stringsOffset)+field(stringsSize) > size {
		return errors.New("it is cut short")
	}
	return checkTokens(dtb[field(structOffset):][:field(structSize)])
}

// checkTokens walks the structure block to its end.
func checkTokens(rest []byte) error {
	const (
		beginNode = 1
		endNode   = 2
		property  = 3
		nop       = 4
		end       = 9
	)
	for len(rest) >= 4 {
		token, skip := binary.BigEndian.Uint32(rest), int64(0)
		rest = rest[4:]
		switch token {
		case beginNode:
			skip = int64(bytes.IndexByte(rest, 0)) + 1
		case property:
			if len(rest) >= 8 {
				skip = 8 + int64(binary.BigEndian.Uint32(rest))
			}
		case endNode, nop:
			continue
		case end:
			return nil
		}
		if skip == 0 || skip > int64(len(rest)) {
			break
		}
		rest = rest[min(int64(len(rest)), (skip+3)/4*4):]
	}
	return errors.New("its structure is damaged")
}

// socNode finds a child of /soc.
func socNode(tree *dt.FDT, name string) (*dt.Node, error) {
	for _, soc := range tree.RootNode.Children {
		if soc.Name != "soc" {
			continue
		}
		for _, n := range soc.Children {
			if n.Name == name {
				return n, nil
			}
		}
	}
	return nil, fmt.Errorf("piboot: the device tree has no /soc/%s; QEMU wants an upstream tree such as bcm2837-rpi-3-a-plus.dtb", name)
}

// keepFirstRange cuts reg to one pair of an address and a size, of four bytes
// each, and reg-names to the name of it.
func keepFirstRange(n *dt.Node) error {
	const pairBytes = 8
	for i := range n.Properties {
		p := &n.Properties[i]
		switch p.Name {
		case "reg":
			if len(p.Value) < pairBytes {
				return fmt.Errorf("piboot: /soc/%s: reg has %d bytes; want a pair of cells", n.Name, len(p.Value))
			}
			p.Value = p.Value[:pairBytes]
		case "reg-names":
			if end := bytes.IndexByte(p.Value, 0); end >= 0 {
				p.Value = p.Value[:end+1]
			}
		}
	}
	return nil
}
