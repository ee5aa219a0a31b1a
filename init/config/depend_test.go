package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// parseGraph reads "a:b,c b" as services with dependencies.
func parseGraph(s string) []Service {
	var out []Service
	for _, word := range strings.Fields(s) {
		id, deps, _ := strings.Cut(word, ":")
		service := Service{ID: id, Command: []string{"/bin/" + id}}
		if deps != "" {
			service.DependsOn = strings.Split(deps, ",")
		}
		out = append(out, service)
	}
	return out
}

func TestStartOrder(t *testing.T) {
	for _, tt := range []struct{ services, want string }{
		{"", ""},
		{"a b c", "a b c"},
		{"c b a", "c b a"},
		{"a:c b c", "b c a"},
		{"a:b b:c c", "c b a"},
		{"web:db,containerd db:containerd log", "db web log"},
		{"d:b,c b:a c:a a", "a b c d"},
		// Parse refuses these; a supervisor must still start everything.
		{"a:a b", "a b"},
		{"a:b b:a c", "c a b"},
		{"x:b b:a a:b", "x b a"},
	} {
		var got []string
		for _, s := range StartOrder(parseGraph(tt.services)) {
			got = append(got, s.ID)
		}
		if want := strings.Fields(tt.want); !slices.Equal(got, want) {
			t.Errorf("StartOrder(%s) = %v; want %v", tt.services, got, want)
		}
	}
}

func TestCycles(t *testing.T) {
	for _, tt := range []struct{ services, want string }{
		{"a:b b:c c", ""},
		{"a:b,c b:d c:d d", ""},
		{"a:b b:c c:a", "a -> b -> c -> a"},
		{"x:a a:b b:a", "a -> b -> a"},
		{"a:b b:a c:d d:c", "a -> b -> a; c -> d -> c"},
	} {
		var text strings.Builder
		text.WriteString("machine:\n  services:\n")
		for _, s := range parseGraph(tt.services) {
			fmt.Fprintf(&text, "  - {id: %s, command: [%s], depends_on: [%s]}\n", s.ID, s.Command[0], strings.Join(s.DependsOn, ", "))
		}
		_, _, err := Parse("f", []byte(text.String()))
		var got []string
		if faults, ok := err.(Errors); ok {
			for _, e := range faults {
				cycle, _ := strings.CutPrefix(e.Message, "dependency cycle ")
				cycle, _, _ = strings.Cut(cycle, ";")
				got = append(got, cycle)
			}
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("cycles of %s = %q; want %q", tt.services, s, tt.want)
		}
	}
}
