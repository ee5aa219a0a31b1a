package fake

import "strings"

// stale is what a file holds where its data did not get to the disk, and where
// its clusters were nobody's before: see newChain.
const stale = 0xe5

// effectKind is what an effect does to the disk.
type effectKind int

const (
	makesDir  effectKind = iota // the directory at path
	linksFile                   // the name path, for the clusters ino
	unlinks                     // the name path
	writes                      // data at offset of ino
	resizes                     // ino has offset bytes
	flushes                     // nothing: what came before is on the disk
)

// effect is what a disk does whole or not at all, writes of several sectors
// excepted.
type effect struct {
	kind   effectKind
	path   string
	ino    int
	offset int64 // bytes
	data   []byte
	// durable is how many effects there were when this one was known to be on
	// the disk; 0 while it is not.
	durable int
}

// node is a name on the disk.
type node struct {
	path string
	dir  bool
	ino  int // of a file
}

// chain is a file's clusters.
type chain struct {
	data []byte
	size int64
}

// content returns what a reader gets.
func (c chain) content() []byte {
	data := make([]byte, c.size)
	for i := copy(data, c.data); i < len(data); i++ {
		data[i] = stale
	}
	return data
}

// tree is a file system. Its chains are never changed, but replaced.
type tree struct {
	nodes  []node
	chains []chain
}

func (t tree) clone() tree {
	return tree{append([]node(nil), t.nodes...), append([]chain(nil), t.chains...)}
}

// find returns the index of a name, or -1. FAT does not tell cases apart.
func (t *tree) find(path string) int {
	for i, n := range t.nodes {
		if len(n.path) == len(path) && strings.EqualFold(n.path, path) {
			return i
		}
	}
	return -1
}

// isDir reports whether there is a directory. The root always is.
func (t *tree) isDir(path string) bool {
	i := t.find(path)
	return path == "." || i >= 0 && t.nodes[i].dir
}

func dirOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return "."
}

// chain returns the clusters of that number, which may not have been written to.
func (t *tree) chain(ino int) *chain {
	for len(t.chains) <= ino {
		t.chains = append(t.chains, chain{})
	}
	return &t.chains[ino]
}

// apply has an effect on the disk. Names in a directory that is not there are
// not to be found.
func (t *tree) apply(e effect) {
	switch e.kind {
	case makesDir, linksFile:
		if !t.isDir(dirOf(e.path)) {
			return
		}
		new := node{path: e.path, dir: e.kind == makesDir, ino: e.ino}
		if i := t.find(e.path); i >= 0 {
			t.nodes[i] = new
			return
		}
		t.nodes = append(t.nodes, new)
	case unlinks:
		kept := t.nodes[:0:0]
		for _, n := range t.nodes {
			if !strings.EqualFold(n.path, e.path) && !below(n.path, e.path) {
				kept = append(kept, n)
			}
		}
		t.nodes = kept
	case writes:
		c := t.chain(e.ino)
		data := append([]byte(nil), c.data...)
		for int64(len(data)) < e.offset+int64(len(e.data)) {
			data = append(data, stale)
		}
		copy(data[e.offset:], e.data)
		c.data = data
	case resizes:
		t.chain(e.ino).size = e.offset
	case flushes:
	}
}

// torn returns the part of a write that gets to the disk when the power goes in
// the midst of it: the first half of its sectors.
func (e effect) torn() effect {
	if e.kind != writes {
		return e
	}
	first := sectorSize - e.offset%sectorSize // bytes up to a boundary
	half := first + (int64(len(e.data))-first)/2/sectorSize*sectorSize
	if int64(len(e.data)) <= first {
		half = 0 // one sector: all or nothing
	}
	e.data = e.data[:half]
	return e
}

const sectorSize = 512

// BootFate is what becomes of an effect that was not flushed when the power
// goes.
type BootFate int

const (
	Kept BootFate = iota
	Lost
	// Torn is a write of which the first half gets to the disk. What is done
	// whole or not at all is kept.
	Torn
)

// Effects returns how many effects there were since Settle. A flush is one.
func (b *BootFiles) Effects() int { return len(b.journal) }

// Pending returns how many of the first n effects are not known to be on the
// disk.
func (b *BootFiles) Pending(n int) int {
	pending := 0
	for _, e := range b.journal[:n] {
		if e.pending(n) {
			pending++
		}
	}
	return pending
}

func (e effect) pending(n int) bool {
	return e.kind != flushes && (e.durable == 0 || e.durable > n)
}

// PowerCut returns the partition, locked and settled, as it is when the power
// goes after the first n effects. fate says what becomes of those that were not
// flushed, which it counts from 0; nil keeps all. Since any of them may be lost,
// this is also what any other order of writing leaves.
func (b *BootFiles) PowerCut(n int, fate func(pending int) BootFate) *BootFiles {
	after := &BootFiles{Sum: b.Sum, Size: b.Size, base: b.base.clone(), inos: b.inos, removed: append([]node(nil), b.removed...)}
	pending := 0
	for _, e := range b.journal[:n] {
		f := Kept
		if e.pending(n) {
			if fate != nil {
				f = fate(pending)
			}
			pending++
		}
		switch f {
		case Kept:
			after.base.apply(e)
		case Torn:
			after.base.apply(e.torn())
		case Lost:
		}
	}
	after.now = after.base.clone()
	return after
}

// newChain gives a file clusters. They are those of a file that was removed: one
// of the same name if there was, or else of the same directory. That is the
// worst they can be, since what a cut leaves of the new file is then old.
func (b *BootFiles) newChain(path string) (ino int) {
	b.inos++
	var data []byte
	for i := len(b.removed) - 1; i >= 0; i-- {
		r := b.removed[i]
		if same := strings.EqualFold(r.path, path); same || data == nil && dirOf(r.path) == dirOf(path) {
			data = b.now.chain(r.ino).data
			if same {
				break
			}
		}
	}
	b.base.chain(b.inos).data, b.now.chain(b.inos).data = data, data
	return b.inos
}

// do has an effect in memory, and notes it.
func (b *BootFiles) do(e effect) {
	if i := b.now.find(e.path); e.kind == unlinks && i >= 0 && !b.now.nodes[i].dir {
		b.removed = append(b.removed, b.now.nodes[i])
	}
	b.now.apply(e)
	b.journal = append(b.journal, e)
}

// flush notes that all effects on path, what is below it, and the directories
// on the way to it are on the disk; on everything for "".
func (b *BootFiles) flush(path string, ino int) {
	if b.Lying {
		return
	}
	b.journal = append(b.journal, effect{kind: flushes})
	for i := range b.journal {
		e := &b.journal[i]
		named := e.kind == makesDir || e.kind == linksFile || e.kind == unlinks
		on := path == "" || named && (e.path == path || below(e.path, path) || below(path, e.path)) || !named && e.ino == ino
		if on && e.durable == 0 {
			e.durable = len(b.journal)
		}
	}
}
