package main

import (
	"cmp"
	"slices"
	"sync"

	"machined/reconcile/resource"
)

// published is what the API lists. The loop writes it; calls of the API read
// it under one short lock.
type published struct {
	mu    sync.Mutex
	kinds map[resource.Kind][]resource.Resource
}

// set replaces all resources of a kind.
func (p *published) set(kind resource.Kind, resources []resource.Resource) {
	slices.SortFunc(resources, func(a, b resource.Resource) int { return cmp.Compare(a.ID(), b.ID()) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kinds == nil {
		p.kinds = make(map[resource.Kind][]resource.Resource)
	}
	p.kinds[kind] = resources
}

// list returns the resources of a kind, ordered by id. The slice is never
// changed afterwards.
func (p *published) list(kind resource.Kind) []resource.Resource {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kinds[kind]
}
