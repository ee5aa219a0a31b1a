package judge

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"machined/hal/linux/fat"
	"machined/tools/crash"
	"machined/tools/crashtest/scenario"
)

// Judge judges the images of one backend, one at a time.
type Judge struct {
	Backend scenario.Backend
	Fsck    Fsck
	Scratch *Volume // as large as the images
	trees   map[[32]byte]bool
}

// ErrWrong says that a whole slot boots, though not the one that had to.
var ErrWrong = errors.New("another slot boots than was promised")

// Boots returns the slot that the firmware boots, with the flag of a trial or
// without. It is crash.ErrBrick if there is none, or one that is not whole.
func (j *Judge) Boots(v *Volume, rules crash.Rules) (string, error) {
	files, err := v.Files()
	if err != nil {
		return "", fmt.Errorf("%w: %w", crash.ErrBrick, err)
	}
	return crash.Check(files, rules)
}

// Repairs counts what was found of the file systems of images.
type Repairs struct {
	Clean      int // without a repair
	Repairable int // by fsck.fat, and then clean and bootable
	Mended     int // by the node's own repair, and then clean and bootable
	Refused    int // by the node's own repair, which left them as they were
}

// Repair checks the file system, and what its repair leaves. want are the slots
// that may boot then.
func (j *Judge) Repair(v *Volume, want []string, count *Repairs) error {
	dirty, err := j.Fsck.repaired(j.Scratch, v)
	if err != nil {
		return fmt.Errorf("the file system cannot be repaired: %w", err)
	}
	if !dirty {
		count.Clean++
		return nil
	}
	if err := j.still(want); err != nil {
		return fmt.Errorf("after fsck.fat -a: %w", err)
	}
	count.Repairable++
	err = mended(j.Scratch, v)
	if errors.Is(err, fat.ErrDamaged) {
		count.Refused++
		return nil
	}
	if err != nil {
		return fmt.Errorf("the node's repair: %w", err)
	}
	count.Mended++
	if err := j.Fsck.run("-n", j.Scratch); err != nil {
		return fmt.Errorf("after the node's repair: %w", err)
	}
	if err := j.still(want); err != nil {
		return fmt.Errorf("after the node's repair: %w", err)
	}
	return nil
}

// still checks that a repaired volume boots what it did before.
func (j *Judge) still(want []string) error {
	slot, err := j.Boots(j.Scratch, j.Backend.Rules)
	if err == nil && !slices.Contains(want, slot) {
		err = fmt.Errorf("slot %s boots; want %v: %w", slot, want, ErrWrong)
	}
	return err
}

// Upgrade boots what is on the volume and upgrades it, in memory. It reports
// whether the files were others than those of all calls before.
func (j *Judge) Upgrade(v *Volume) (fresh bool, err error) {
	tree, err := j.tree(v)
	if err != nil {
		return false, err
	}
	key := treeKey(tree)
	if j.trees[key] {
		return false, nil
	}
	if j.trees == nil {
		j.trees = map[[32]byte]bool{}
	}
	j.trees[key] = true
	files := scenario.Memory(tree)
	n := &scenario.Node{Backend: j.Backend, Files: files, Boot: scenario.View{BootFiles: files}}
	return true, n.Upgrade("v9")
}

// tree returns the files of a volume. One that was being written may have more
// bytes than clusters: what a node sees of it is what the repair leaves.
func (j *Judge) tree(v *Volume) (map[string][]byte, error) {
	files, err := v.Files()
	if err != nil {
		return nil, err
	}
	if tree, err := scenario.ReadTree(files); err == nil {
		return tree, nil
	}
	if err := mended(j.Scratch, v); err != nil {
		scratchErr := err
		j.Scratch.Copy(v)
		if err := j.Fsck.run("-a", j.Scratch); !errors.Is(err, errRepaired) {
			return nil, errors.Join(scratchErr, err)
		}
	}
	if files, err = j.Scratch.Files(); err != nil {
		return nil, err
	}
	return scenario.ReadTree(fs.FS(files))
}

func treeKey(tree map[string][]byte) [32]byte {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(tree)) {
		fmt.Fprintf(h, "%s %d\n", path, len(tree[path]))
		h.Write(tree[path])
	}
	return [32]byte(h.Sum(nil))
}
