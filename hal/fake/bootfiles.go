package fake

import (
	"slices"
	"strings"

	"machined/hal"
)

// BootFiles is a simulated hal.BootFiles: FAT, in memory. It keeps a journal of
// the effects on the disk, of which PowerCut makes what is left of them.
type BootFiles struct {
	Faults
	// Sum is SHA-256, which is not in what a simulation is made of.
	Sum func(data []byte) [32]byte
	// Size is the partition's, in bytes; 0 means 256 MiB.
	Size int64
	// Lying makes a disk that says that data is flushed, and has it in its
	// cache.
	Lying bool
	// Unlocked says whether the partition is writable, and Unlocks how often it
	// was made so.
	Unlocked bool
	Unlocks  int

	base    tree     // before the journal
	now     tree     // after it
	journal []effect // since Settle
	inos    int      // chains that were given out
	removed []node   // files, in the order of their going
}

// Put places a file, on the disk, without asking for faults.
func (b *BootFiles) Put(path string, data []byte) {
	b.makeDirs(dirOf(path))
	ino := b.newChain(path)
	b.do(effect{kind: writes, ino: ino, data: append([]byte(nil), data...)})
	b.do(effect{kind: resizes, ino: ino, offset: int64(len(data))})
	b.do(effect{kind: linksFile, path: path, ino: ino})
	b.Settle()
}

// Settle has everything on the disk, and begins a new journal.
func (b *BootFiles) Settle() { b.base, b.journal = b.now.clone(), nil }

// Damage changes a byte of a file on the disk, as a failing card does. The
// journal knows nothing of it.
func (b *BootFiles) Damage(path string, offset int64) {
	c := b.now.chain(b.now.nodes[b.now.find(path)].ino)
	c.data = c.content()
	c.data[offset] ^= 0xff
}

// Paths returns the paths of all files, sorted.
func (b *BootFiles) Paths() []string {
	var paths []string
	for _, n := range b.now.nodes {
		if !n.dir {
			paths = append(paths, n.path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Unlock implements hal.BootFiles.
func (b *BootFiles) Unlock() error {
	if err := b.failing("Unlock"); err != nil || b.Unlocked {
		return err
	}
	b.Unlocked = true
	b.Unlocks++
	return nil
}

// Lock implements hal.BootFiles.
func (b *BootFiles) Lock() error {
	if err := b.failing("Lock"); err != nil || !b.Unlocked {
		return err
	}
	b.flush("", 0)
	b.Unlocked = false
	return nil
}

// check begins a call on path.
func (b *BootFiles) check(method, path string, writes bool) error {
	if err := b.failing(method); err != nil {
		return err
	}
	if !validBootPath(path) {
		return hal.ErrInvalid
	}
	if writes && !b.Unlocked {
		return hal.ErrLocked
	}
	return nil
}

func validBootPath(path string) bool {
	if strings.ContainsAny(path, "\\\x00") {
		return false
	}
	for rest, more := path, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}

// file returns the clusters of a file.
func (b *BootFiles) file(path string) (ino int, err error) {
	i := b.now.find(path)
	switch {
	case i < 0:
		return 0, hal.ErrNotFound
	case b.now.nodes[i].dir:
		return 0, hal.ErrInvalid
	}
	return b.now.nodes[i].ino, nil
}

// Read implements hal.BootFiles.
func (b *BootFiles) Read(path string) ([]byte, error) {
	if err := b.check("Read", path, false); err != nil {
		return nil, err
	}
	ino, err := b.file(path)
	if err != nil {
		return nil, err
	}
	c := b.now.chain(ino)
	if c.size > maxFile {
		return nil, hal.ErrInvalid
	}
	return c.content(), nil
}

// List implements hal.BootFiles.
func (b *BootFiles) List(dir string) ([]hal.BootFile, error) {
	if dir == "" {
		dir = "."
	}
	if dir != "." {
		if err := b.check("List", dir, false); err != nil {
			return nil, err
		}
	}
	if !b.now.isDir(dir) {
		return nil, hal.ErrNotFound
	}
	var list []hal.BootFile
	for _, n := range b.now.nodes {
		if !strings.EqualFold(dirOf(n.path), dir) {
			continue
		}
		f := hal.BootFile{Name: strings.TrimPrefix(n.path[max(0, strings.LastIndexByte(n.path, '/')):], "/"), Dir: n.dir}
		if !n.dir {
			f.Size = b.now.chain(n.ino).size
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b hal.BootFile) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Hash implements hal.BootFiles.
func (b *BootFiles) Hash(path string) ([32]byte, error) {
	if err := b.check("Hash", path, false); err != nil {
		return [32]byte{}, err
	}
	ino, err := b.file(path)
	if err != nil {
		return [32]byte{}, err
	}
	return b.Sum(b.now.chain(ino).content()), nil
}

// Free implements hal.BootFiles.
func (b *BootFiles) Free() (int64, error) {
	if err := b.failing("Free"); err != nil {
		return 0, err
	}
	free := b.Size
	if free == 0 {
		free = 256 << 20
	}
	for _, n := range b.now.nodes {
		if !n.dir {
			free -= b.now.chain(n.ino).size
		}
	}
	return max(free, 0), nil
}

// Flush implements hal.BootFiles.
func (b *BootFiles) Flush() error {
	if err := b.failing("Flush"); err != nil {
		return err
	}
	b.flush("", 0)
	return nil
}

var _ hal.BootFiles = (*BootFiles)(nil)
