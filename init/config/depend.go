package config

import "strings"

// maxCycles bounds the cycles that are reported: a dense graph has more than
// anybody reads, and each is as long as the graph is deep.
const maxCycles = 5

// graph checks the dependencies between services.
type graph struct {
	d               *decoder
	runtimeDisabled bool
	order           []string
	edges           map[string][]edge
	// state holds the declared services: unvisited, then onPath, then done.
	state  map[string]int
	path   []string
	cycles int
}

const (
	unvisited = iota
	onPath
	done
)

// edge is an entry of depends_on.
type edge struct {
	to    string
	place value
}

func (g *graph) add(id string, dependsOn []value) {
	if g.edges == nil {
		g.edges, g.state = map[string][]edge{}, map[string]int{}
	}
	g.order = append(g.order, id)
	g.state[id] = unvisited
	for _, v := range dependsOn {
		v.node = target(v.node)
		to, err := parseID(v.node.Value)
		if err == nil {
			g.edges[id] = append(g.edges[id], edge{to: to, place: v})
		}
	}
}

func (g *graph) check() {
	for _, id := range g.order {
		for _, e := range g.edges[id] {
			g.checkTarget(id, e)
		}
	}
	for _, id := range g.order {
		g.visit(id)
	}
}

func (g *graph) checkTarget(id string, e edge) {
	_, declared := g.state[e.to]
	switch {
	case e.to == id:
		g.d.errorf(e.place, "service %q depends on itself; remove the entry", id)
	case e.to == ContainerdID && g.runtimeDisabled:
		g.d.errorf(e.place, "service %q would wait for ever: machine.runtime.disabled is true", id)
	case e.to != ContainerdID && !declared:
		g.d.errorf(e.place, "no service has the id %q%s", e.to, g.d.suggest(e.to, append([]string{ContainerdID}, g.order...)))
	}
}

// visit walks depth first and reports the edges that lead back into the path.
func (g *graph) visit(id string) {
	if state, declared := g.state[id]; !declared || state != unvisited {
		return
	}
	g.state[id] = onPath
	g.path = append(g.path, id)
	for _, e := range g.edges[id] {
		if g.state[e.to] == onPath && e.to != id && g.cycles < maxCycles {
			g.cycles++
			g.d.errorf(e.place, "dependency cycle %s; remove one of these dependencies", g.cycle(e.to))
		}
		g.visit(e.to)
	}
	g.path = g.path[:len(g.path)-1]
	g.state[id] = done
}

// cycle names the part of the path from id on, and id again.
func (g *graph) cycle(id string) string {
	start := len(g.path) - 1
	for g.path[start] != id {
		start--
	}
	return strings.Join(g.path[start:], " -> ") + " -> " + id
}

// StartOrder returns the services with every service after those it depends
// on; those that may start at the same time keep the order of the list.
// ContainerdID and other ids that are not in the list count as started.
//
// A cycle, which Parse refuses, is broken at its first service: no service is
// left out. Stop in the reverse order.
func StartOrder(services []Service) []Service {
	waiting := make(map[string]int, len(services))
	for _, s := range services {
		waiting[s.ID]++
	}
	out := make([]Service, 0, len(services))
	placed := make([]bool, len(services))
	for len(out) < len(services) {
		next := -1
		for i, s := range services {
			if placed[i] {
				continue
			}
			if next < 0 {
				next = i
			}
			if ready(s, waiting) {
				next = i
				break
			}
		}
		placed[next] = true
		waiting[services[next].ID]--
		out = append(out, services[next])
	}
	return out
}

func ready(s Service, waiting map[string]int) bool {
	for _, id := range s.DependsOn {
		if waiting[id] > 0 && id != s.ID {
			return false
		}
	}
	return true
}
