package fat32

import (
	"fmt"
	"sort"
	"strings"
)

const (
	maxFileBytes = 1<<32 - 1
	// maxDirBytes: a directory holds at most 65536 entries of 32 bytes.
	maxDirBytes = 65536 * direntBytes
)

// node is a file or a directory of the tree, and where it ends up.
type node struct {
	name     string
	path     string // as the caller spelled it, for messages
	file     *File  // nil for a directory
	parent   *node  // nil for the root
	byKey    map[string]*node
	children []*node // sorted by key once the tree is complete
	labelled bool    // the root of a volume with a label

	short    shortName
	needLong bool

	first    uint32 // cluster; 0 for an empty file
	clusters uint32
}

// buildTree makes the tree that files describe, with names checked and short
// aliases assigned. Its shape does not depend on the order of files.
func buildTree(files []File) (*node, error) {
	root := &node{byKey: map[string]*node{}}
	ordered := make([]*File, len(files))
	for i := range files {
		ordered[i] = &files[i]
	}
	// Sorted first, so that the error for a bad set is always the same one.
	sort.SliceStable(ordered, func(i, j int) bool { return ordered[i].Path < ordered[j].Path })
	for _, f := range ordered {
		if err := root.add(f); err != nil {
			return nil, err
		}
	}
	if err := root.finish(); err != nil {
		return nil, err
	}
	return root, nil
}

// add puts f below the root n.
func (n *node) add(f *File) error {
	path, isDir := strings.CutSuffix(f.Path, "/")
	if f.Size < 0 || f.Size > maxFileBytes || isDir && f.Size != 0 {
		return fmt.Errorf("fat32: %w: %q of %d bytes; a file has 0 to %d, a directory 0", ErrSize, f.Path, f.Size, int64(maxFileBytes))
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if err := checkName(part); err != nil {
			return fmt.Errorf("fat32: path %q: %w", f.Path, err)
		}
		last := i == len(parts)-1
		child, err := n.child(part, strings.Join(parts[:i+1], "/"))
		if err != nil {
			return err
		}
		switch {
		case last && !isDir && (child.file != nil || child.byKey != nil):
			return fmt.Errorf("fat32: %w: %q is there already, as %q; FAT ignores case, rename one", ErrDuplicate, f.Path, child.path)
		case last && !isDir:
			child.file = f
		case child.file != nil:
			return fmt.Errorf("fat32: %w: %q needs %q to be a directory, but it is a file", ErrDuplicate, f.Path, child.path)
		case child.byKey == nil:
			child.byKey = map[string]*node{}
		}
		n = child
	}
	return nil
}

// child finds or makes the entry name below n. Two spellings of one name are
// refused, even of a directory: on the volume they would be the same one.
func (n *node) child(name, path string) (*node, error) {
	key := foldName(name)
	c, ok := n.byKey[key]
	if !ok {
		c = &node{name: name, path: path, parent: n}
		n.byKey[key] = c
	}
	if c.name != name {
		return nil, fmt.Errorf("fat32: %w: %q and %q; FAT ignores case, rename one", ErrDuplicate, c.path, path)
	}
	return c, nil
}

// finish sorts n and everything below, and gives out the short names.
func (n *node) finish() error {
	keys := make([]string, 0, len(n.byKey))
	for key := range n.byKey {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	aliases := newAliases()
	for _, key := range keys {
		n.children = append(n.children, n.byKey[key])
		aliases.reserve(key)
	}
	for _, c := range n.children {
		var err error
		if c.short, c.needLong, err = aliases.assign(c.name); err != nil {
			return fmt.Errorf("fat32: path %q: %w", c.path, err)
		}
		if c.isDir() {
			if err := c.finish(); err != nil {
				return err
			}
		}
	}
	if n.dirBytes() > maxDirBytes {
		return fmt.Errorf("fat32: %w: directory %q needs %d entries, FAT allows %d; split it", ErrFull, n.path, n.dirBytes()/direntBytes, maxDirBytes/direntBytes)
	}
	return nil
}

func (n *node) isDir() bool { return n.file == nil }

// dirBytes is the size of the directory n itself.
func (n *node) dirBytes() int64 {
	entries := 2 // "." and ".."
	if n.parent == nil {
		entries = 0
		if n.labelled {
			entries = 1
		}
	}
	for _, c := range n.children {
		entries += 1 + c.longEntries()
	}
	return int64(entries) * direntBytes
}

// ownClusters is how many clusters n itself takes. A directory has at least
// one; an empty file has none.
func (n *node) ownClusters(clusterBytes int64) int64 {
	if n.isDir() {
		return max(1, (n.dirBytes()+clusterBytes-1)/clusterBytes)
	}
	return (n.file.Size + clusterBytes - 1) / clusterBytes
}

// clustersBelow is how many clusters n and everything below it take.
func (n *node) clustersBelow(clusterBytes int64) int64 {
	sum := n.ownClusters(clusterBytes)
	for _, c := range n.children {
		sum += c.clustersBelow(clusterBytes)
	}
	return sum
}

// walk visits n and everything below, parents first, siblings in order.
func (n *node) walk(visit func(*node) error) error {
	if err := visit(n); err != nil {
		return err
	}
	for _, c := range n.children {
		if err := c.walk(visit); err != nil {
			return err
		}
	}
	return nil
}
