package main

import (
	"time"

	"machined/reconcile"
	"machined/reconcile/resource"
)

// watcher is a client of the API that follows a kind at its own pace, and knows
// only what it was told.
type watcher struct {
	kind  resource.Kind
	every [2]int64 // bounds of its pace
	next  time.Duration
	from  uint64
	seen  map[resource.Key]reconcile.Change
}

// newWatchers begins anew, as clients do when the node's epoch changes.
func (w *world) newWatchers() {
	w.watchers = nil
	for range 4 {
		k := resource.Kind(w.between(1, int64(resource.KindCount)))
		pace := pick(w, [2]int64{0, second}, [2]int64{second, 20 * second}, [2]int64{minute, 15 * minute})
		w.watchers = append(w.watchers, &watcher{kind: k, every: pace, next: w.now(), seen: map[resource.Key]reconcile.Change{}})
	}
}

// watch lets the watchers look whose time has come.
func (w *world) watch() {
	for _, o := range w.watchers {
		if o.next > w.now() {
			continue
		}
		o.next = w.now() + time.Duration(max(1, w.between(o.every[0], o.every[1])))
		if w.nextChaos == never { // and nothing happens any more
			o.next += 20 * time.Second
		}
		w.look(o)
	}
}

func (w *world) look(o *watcher) {
	var changes []reconcile.Change
	changes, o.from = w.node.store.Watch(o.kind, o.from, nil)
	for i, c := range changes {
		switch c.Op {
		case reconcile.Lost:
			clear(o.seen)
			w.counts.lost++
		case reconcile.Destroyed:
			delete(o.seen, c.Key)
		case reconcile.Synced:
		default:
			if w.sabotage == dropEvents && i == 0 && c.Op != reconcile.Current {
				continue
			}
			o.seen[c.Key] = c
		}
	}
	w.compare(o)
}

// compare checks that a watcher has the whole table.
func (w *world) compare(o *watcher) {
	w.counts.accounts++
	all := w.node.store.Snapshot(o.kind)
	if len(all) != len(o.seen) {
		w.fail("watch", "a watch of %v has %d resources; there are %d", o.kind, len(o.seen), len(all))
		return
	}
	for _, want := range all {
		got, ok := o.seen[want.Key]
		if !ok || got.Resource != want.Resource || got.Meta.Version != want.Meta.Version || got.Meta.Phase != want.Meta.Phase {
			w.fail("watch", "a watch of %v has %v as %+v; it is %+v", o.kind, want.Key, got.Resource, want.Resource)
			return
		}
	}
}
