package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// Merge applies a patch to a base config; both are YAML documents, and so is
// the result, without anchors. Mappings are merged field by field. Lists whose
// items all have a name, an id or a key are merged by it, new items going to the
// end. Anything else is replaced. A null in the patch deletes the field.
//
// The result is not validated: pass it to Parse.
func Merge(base, patch []byte) ([]byte, error) {
	b, err := tree("base config", base)
	if err != nil {
		return nil, fmt.Errorf("read the config that the patch is for: %w", err)
	}
	p, err := tree("patch", patch)
	if err != nil {
		return nil, fmt.Errorf("read the config patch: %w", err)
	}
	return dump(mergeNodes(b, p))
}

// tree reads a document and writes its aliases out, because a change to a node
// with an anchor would show at each alias.
func tree(file string, data []byte) (*yaml.Node, error) {
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	d := &decoder{file: file}
	out := d.expand(value{node: root}, 0)
	if len(d.errors) > 0 {
		sortByPlace(d.errors)
		return nil, d.errors
	}
	return out, nil
}

func (d *decoder) expand(v value, depth int) *yaml.Node {
	v.node = target(v.node)
	d.visited++
	if depth > maxDepth || d.visited > maxNodes {
		if len(d.errors) == 0 {
			d.errorf(v, "aliases expand to more than %d YAML nodes or %d levels; use fewer aliases", maxNodes, maxDepth)
		}
		return v.node
	}
	n := *v.node
	n.Anchor, n.Content = "", nil
	if n.Kind != yaml.MappingNode {
		for _, child := range v.node.Content {
			n.Content = append(n.Content, d.expand(value{node: child, path: v.path}, depth+1))
		}
		return &n
	}
	for key, item := range d.pairs(v) {
		word := *key.node
		word.Anchor = ""
		n.Content = append(n.Content, &word, d.expand(item, depth+1))
	}
	return &n
}

func mergeNodes(base, patch *yaml.Node) *yaml.Node {
	switch {
	case base.Kind == yaml.MappingNode && patch.Kind == yaml.MappingNode:
		return mergeMappings(base, patch)
	case base.Kind == yaml.SequenceNode && patch.Kind == yaml.SequenceNode:
		for _, key := range []string{"name", "id", "key"} {
			if allHave(base, key) && allHave(patch, key) {
				return mergeLists(base, patch, key)
			}
		}
	}
	return withoutNulls(patch)
}

func mergeMappings(base, patch *yaml.Node) *yaml.Node {
	out := *base
	out.Content = nil
	for i := 0; i+1 < len(base.Content); i += 2 {
		key, item := base.Content[i], base.Content[i+1]
		if change := field(patch, key.Value); change != nil {
			if isNull(change) {
				continue
			}
			item = mergeNodes(item, change)
		}
		out.Content = append(out.Content, key, item)
	}
	for i := 0; i+1 < len(patch.Content); i += 2 {
		key, item := patch.Content[i], patch.Content[i+1]
		if field(base, key.Value) == nil && !isNull(item) {
			out.Content = append(out.Content, key, withoutNulls(item))
		}
	}
	return styled(&out)
}

func mergeLists(base, patch *yaml.Node, key string) *yaml.Node {
	out := *base
	out.Content = append([]*yaml.Node(nil), base.Content...)
	at := map[string]int{}
	for i, item := range base.Content {
		at[field(item, key).Value] = i
	}
	for _, item := range patch.Content {
		word := field(item, key).Value
		if i, ok := at[word]; ok {
			out.Content[i] = mergeNodes(out.Content[i], item)
			continue
		}
		at[word] = len(out.Content)
		out.Content = append(out.Content, withoutNulls(item))
	}
	return styled(&out)
}

// styled makes a block of what was `{}` or `[]` and has gained items.
func styled(n *yaml.Node) *yaml.Node {
	n.Style &^= yaml.FlowStyle
	return n
}

func withoutNulls(n *yaml.Node) *yaml.Node {
	out := *n
	out.Content = nil
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && (isNull(n.Content[i|1])) {
			continue
		}
		out.Content = append(out.Content, withoutNulls(child))
	}
	return &out
}

// field returns a value of a mapping, nil if there is none.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// allHave reports whether every item of a list is a mapping with a word as key.
func allHave(list *yaml.Node, key string) bool {
	for _, item := range list.Content {
		if item.Kind != yaml.MappingNode {
			return false
		}
		if f := field(item, key); f == nil || f.Kind != yaml.ScalarNode || isNull(f) {
			return false
		}
	}
	return true
}
