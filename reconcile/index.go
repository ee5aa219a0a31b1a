package reconcile

import "machined/reconcile/resource"

// find returns the place of a key in entries, or -1.
func (t *Table[T]) find(key *resource.Key) int {
	if len(t.index) == 0 {
		return -1
	}
	hash := key.Hash()
	mask := uint32(len(t.index) - 1)
	for h := hash & mask; t.index[h] != 0; h = (h + 1) & mask {
		if t.index[h]>>16 != hash>>16 {
			continue
		}
		if i := int(t.index[h]&0xffff) - 1; t.entries[i].key.Same(key) {
			return i
		}
	}
	return -1
}

// place enters the resource at i, which is the last, into the index.
func (t *Table[T]) place(i int) {
	if 2*len(t.entries) > len(t.index) {
		t.index = make([]uint32, max(16, 2*len(t.index)))
		t.reindex()
		return
	}
	t.insert(i)
}

func (t *Table[T]) insert(i int) {
	mask := uint32(len(t.index) - 1)
	hash := t.entries[i].key.Hash()
	h := hash & mask
	for t.index[h] != 0 {
		h = (h + 1) & mask
	}
	t.index[h] = hash&^0xffff | uint32(i+1)
}

func (t *Table[T]) reindex() {
	clear(t.index)
	for i := range t.entries {
		t.insert(i)
	}
}

// remove takes the resource at i out. It keeps the order of the others, at the
// price of a new index: far more is read than destroyed.
func (t *Table[T]) remove(by Owner, i int) {
	t.store.lock.Lock()
	t.record(by, Destroyed, t.entries[i].key)
	copy(t.entries[i:], t.entries[i+1:])
	t.entries[len(t.entries)-1] = entry[T]{} // its strings can go
	t.entries = t.entries[:len(t.entries)-1]
	t.reindex()
	t.store.lock.Unlock()
}
