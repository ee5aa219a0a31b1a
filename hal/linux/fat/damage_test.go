package fat

import (
	"encoding/binary"
	"testing"
)

// damage is what a cut upgrade may leave, made on purpose in slot B.
type damage struct {
	name   string
	do     func(t testing.TB, m image)
	want   Report   // numbers of -1: more than 0, of -2: any
	except []string // paths that do not stay as they were
}

const (
	kernel  = "B/KERNEL8.IMG"
	kernelB = "B/kernel8.img"
)

func count(paths ...string) Paths { return Paths{Count: len(paths), First: paths} }

func damages() []damage {
	return append(tableDamages(), entryDamages()...)
}

func tableDamages() []damage {
	return []damage{
		{name: "nothing but the mark", do: func(testing.TB, image) {}},
		{name: "mark in the FATs", do: func(_ testing.TB, m image) {
			m.poke(bootState, 0)
			m.set(1, m.entry(1)&^cleanShutdown)
		}},
		{name: "mark in the first FAT", want: Report{Mirrored: 1}, do: func(_ testing.TB, m image) {
			m.poke(bootState, 0)
			m.set(1, m.entry(1)&^cleanShutdown, 0)
		}},
		{name: "FATs differ, the first knows more", want: Report{Mirrored: -1, Freed: 3}, do: func(_ testing.TB, m image) {
			a := m.free(0)
			m.set(a-2, a-1, 0)
			m.set(a-1, a, 0)
			m.set(a, lastCluster, 0)
		}},
		{name: "FATs differ, the second knows more", want: Report{Mirrored: -1}, do: func(_ testing.TB, m image) {
			m.set(m.free(0), lastCluster, 1)
			m.set(m.free(1000), lastCluster, 1)
		}},
		{name: "a sector of the first FAT lost", want: Report{Mirrored: -1, FromSecond: true}, do: func(t testing.TB, m image) {
			_, d := m.find(t, "A/KERNEL8.IMG")
			at := m.v.fatAt + int64(d.first())*4/512*512
			m.apply(at, make([]byte, 512))
		}},
		{name: "a sector of the first FAT garbage", want: Report{Mirrored: 1, FromSecond: true}, do: func(_ testing.TB, m image) {
			m.apply(m.v.fatAt, randomBytes(512, 9))
		}},
		{name: "lost chains", want: Report{Freed: 5}, do: func(_ testing.TB, m image) {
			a := m.free(0)
			m.set(a-3, a-2)
			m.set(a-2, a-1)
			m.set(a-1, 0) // the chain is broken
			m.set(a, 0xf0000000|lastCluster)
			m.set(m.free(700), m.free(900))
			m.set(m.free(900), badCluster) // not lost
			m.set(m.free(800), 0x0abcdef0)
		}},
		{name: "bad clusters stay", want: Report{Summary: true}, do: func(_ testing.TB, m image) { m.set(m.free(0), badCluster) }},
		{name: "count of free clusters", do: func(_ testing.TB, m image) {
			m.apply(m.v.infoAt+infoFree, []byte{1, 2, 3, 0, 0xff, 0xff, 0xff, 0x7f})
		}, want: Report{Summary: true}},
		{name: "count of free clusters unknown", do: func(_ testing.TB, m image) {
			m.apply(m.v.infoAt+infoFree, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		}, want: Report{Summary: true}},
	}
}

func entryDamages() []damage {
	size := func(m image, at int64, n int) {
		m.apply(at+direntSize, binary.LittleEndian.AppendUint32(nil, uint32(n)))
	}
	return []damage{
		{name: "chain too long", want: Report{Freed: 2, Trimmed: count(kernelB), Summary: true}, do: func(t testing.TB, m image) {
			_, d := m.find(t, kernel)
			chain, a := m.chain(d.first()), m.free(0)
			m.set(chain[len(chain)-1], a-1)
			m.set(a-1, a)
			m.set(a, lastCluster)
			// As Linux does it, FSInfo is right until the next mount.
			m.apply(m.v.infoAt+infoFree, binary.LittleEndian.AppendUint32(nil, 7))
		}},
		{name: "size too small", want: Report{Freed: -1, Trimmed: count(kernelB), Summary: true}, except: []string{kernelB}, do: func(t testing.TB, m image) {
			at, _ := m.find(t, kernel)
			size(m, at, 1000)
		}},
		{name: "size too large", want: Report{Shortened: count(kernelB)}, except: []string{kernelB}, do: func(t testing.TB, m image) {
			at, _ := m.find(t, kernel)
			size(m, at, 0xffffffff)
		}},
		{name: "chain cut short", want: Report{Freed: -1, Shortened: count(kernelB), Summary: true}, except: []string{kernelB}, do: func(t testing.TB, m image) {
			_, d := m.find(t, kernel)
			m.set(m.chain(d.first())[5], 0x50000000|lastCluster)
		}},
		{name: "chain broken", want: Report{Freed: -1, Shortened: count(kernelB), Summary: true}, except: []string{kernelB}, do: func(t testing.TB, m image) {
			_, d := m.find(t, kernel)
			m.set(m.chain(d.first())[5], 0)
		}},
		{name: "chain broken at its start", want: Report{Freed: -1, Shortened: count(kernelB), Summary: true}, except: []string{kernelB}, do: func(t testing.TB, m image) {
			_, d := m.find(t, kernel)
			m.set(d.first(), 0)
		}},
		{name: "chain without an end", want: Report{Trimmed: count(kernelB)}, do: func(t testing.TB, m image) {
			_, d := m.find(t, kernel)
			chain := m.chain(d.first())
			m.set(chain[len(chain)-1], m.free(5))
		}},
		{name: "size without clusters", want: Report{Freed: -1, Shortened: count(kernelB), Summary: true}, except: []string{kernelB}, do: func(t testing.TB, m image) {
			at, _ := m.find(t, kernel)
			m.apply(at+direntHigh, []byte{0, 0})
			m.apply(at+direntLow, []byte{0, 0})
		}},
		{name: "clusters without a size", want: Report{Freed: -1, Trimmed: count(kernelB), Summary: true}, except: []string{kernelB}, do: func(t testing.TB, m image) {
			at, _ := m.find(t, kernel)
			size(m, at, 0)
		}},
		{name: "a free cluster without a size", want: Report{Trimmed: count("B/empty")}, do: func(t testing.TB, m image) {
			at, _ := m.find(t, "B/EMPTY")
			m.apply(at+direntLow, binary.LittleEndian.AppendUint16(nil, uint16(m.free(3))))
		}},
		{name: "file removed", want: Report{Freed: -1, LongNames: 3, Summary: true}, except: []string{"B/a long name of a file, with blanks.txt"}, do: func(t testing.TB, m image) {
			// Of its entries, only the sector with the short one was written.
			at, _ := m.find(t, "B/ALONGN~1.TXT")
			m.poke(at, deleted)
		}},
		{name: "first part of a long name lost", want: Report{LongNames: 2}, except: []string{"B/a long name of a file, with blanks.txt"}, do: func(t testing.TB, m image) {
			at, _ := m.find(t, "B/ALONGN~1.TXT")
			m.poke(at-3*direntBytes, deleted)
		}},
		{name: "last part of a long name lost", want: Report{LongNames: 2, Gaps: 1}, except: []string{"B/a long name of a file, with blanks.txt"}, do: func(t testing.TB, m image) {
			at, _ := m.find(t, "B/ALONGN~1.TXT")
			m.apply(at-direntBytes, make([]byte, direntBytes))
		}},
		{name: "a directory that ends early", want: Report{Gaps: -1}, except: []string{"B/a long name of a file, with blanks.txt"}, do: func(t testing.TB, m image) {
			at, d := m.find(t, "B/ALONGN~1.TXT")
			end := m.freeEntry(t, "B")
			m.apply(end+direntBytes, d)
			m.apply(at-3*direntBytes, make([]byte, 4*direntBytes))
		}},
		{name: "long name of another", want: Report{LongNames: 3}, except: []string{"B/a long name of a file, with blanks.txt"}, do: func(t testing.TB, m image) {
			at, _ := m.find(t, "B/ALONGN~1.TXT")
			m.poke(at, 'X')
		}},
		{name: "long name at the end", want: Report{LongNames: 1}, do: func(t testing.TB, m image) {
			at, _ := m.find(t, "B/ALONGN~1.TXT")
			m.apply(m.freeEntry(t, "B"), m.bytes(at-3*direntBytes, direntBytes))
		}},
		{name: "a new directory, not written", want: Report{Freed: 1, Removed: count("B/NEW"), Summary: false}, do: func(t testing.TB, m image) {
			c := newDirectory(t, m)
			m.set(c, lastCluster)
			m.apply(m.v.clusterAt(c), randomBytes(int(m.v.clusterBytes), 5))
		}},
		{name: "a new directory of zeros", want: Report{Freed: 1, Removed: count("B/NEW")}, do: func(t testing.TB, m image) { m.set(newDirectory(t, m), lastCluster) }},
		{name: "a new directory, not allocated", want: Report{Removed: count("B/NEW")}, do: func(t testing.TB, m image) { newDirectory(t, m) }},
		{name: "a directory grown into old data", want: Report{Shortened: count("B/overlays/"), Summary: true}, do: func(t testing.TB, m image) {
			_, d := m.find(t, "B/OVERLAYS")
			chain, c := m.chain(d.first()), m.free(0)
			m.set(chain[len(chain)-1], c)
			m.set(c, lastCluster)
			m.apply(m.v.clusterAt(c), randomBytes(int(m.v.clusterBytes), 6))
		}},
		{name: "a directory that grew, written in part", want: Report{Gaps: -2, Shortened: count("B/overlays/"), Summary: true}, do: func(t testing.TB, m image) {
			_, d := m.find(t, "B/OVERLAYS")
			chain, c := m.chain(d.first()), m.free(0)
			m.set(chain[len(chain)-1], c)
			m.set(c, lastCluster)
			m.apply(m.v.clusterAt(c), make([]byte, m.v.clusterBytes))
			m.apply(m.v.clusterAt(c)+m.v.clusterBytes-512, randomBytes(512, 6))
			at, _ := m.find(t, "B/EMPTY")
			if m.v.clusterBytes > 512 {
				m.apply(m.v.clusterAt(c), m.bytes(at, direntBytes))
			}
		}},
		{name: "a directory of rubbish behind its start", want: Report{Shortened: count("B/NEW/"), Summary: true}, do: func(t testing.TB, m image) {
			c := newDirectory(t, m)
			m.set(c, lastCluster)
			m.apply(m.v.clusterAt(c), randomBytes(int(m.v.clusterBytes), 5))
			_, d := m.find(t, "B/OVERLAYS")
			dots := m.bytes(m.v.clusterAt(d.first()), 2*direntBytes)
			binary.LittleEndian.PutUint16(dots[direntHigh:], uint16(c>>16))
			binary.LittleEndian.PutUint16(dots[direntLow:], uint16(c))
			m.apply(m.v.clusterAt(c), dots)
		}},
		{name: "the root grown into a free cluster", want: Report{Shortened: count("/")}, do: func(t testing.TB, m image) {
			chain := m.chain(m.v.root)
			m.set(chain[len(chain)-1], m.free(0))
		}},
	}
}

// newDirectory adds an entry for a directory B/NEW, and returns its cluster,
// which is free.
func newDirectory(t testing.TB, m image) uint32 {
	c, e := m.free(0), make([]byte, direntBytes)
	copy(e, "NEW        \x10")
	binary.LittleEndian.PutUint16(e[direntHigh:], uint16(c>>16))
	binary.LittleEndian.PutUint16(e[direntLow:], uint16(c))
	m.apply(m.freeEntry(t, "B"), e)
	return c
}
