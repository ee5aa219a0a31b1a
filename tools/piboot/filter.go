package piboot

import (
	"slices"
	"strconv"
	"strings"
)

// filters holds the conditional filters in effect. Filters of one kind replace
// each other, those of different kinds add up, and [all] drops them all.
type filters struct {
	board   Board
	tryboot bool
	passes  map[string]bool // by kind
}

// apply takes the text between the brackets. It returns a warning about a
// filter that cannot be decided, and hides what follows it.
func (f *filters) apply(text string) (warning string) {
	name := strings.ToLower(strings.TrimSpace(text))
	if name == "all" {
		clear(f.passes)
		return ""
	}
	kind, pass, known := f.decide(name)
	f.passes[kind] = pass
	if !known {
		return "the filter [" + text + "] cannot be decided without the board; its section is left out"
	}
	return ""
}

// active says whether settings apply here.
func (f *filters) active() bool {
	for _, pass := range f.passes {
		if !pass {
			return false
		}
	}
	return true
}

func (f *filters) decide(name string) (kind string, pass, known bool) {
	key, value, hasValue := strings.Cut(name, "=")
	switch {
	case name == "none":
		return "none", false, true
	case name == "tryboot":
		return "tryboot", f.tryboot, true
	case key == "board-type" && hasValue:
		n, err := strconv.ParseUint(value, 0, 64)
		return "model", err == nil && n == f.board.Type, err == nil
	case modelName(name):
		return "model", slices.Contains(f.board.Filters, name), true
	case strings.HasPrefix(name, "0x"):
		n, err := strconv.ParseUint(name, 0, 64)
		return "serial", err == nil && n != 0 && n == f.board.Serial, err == nil
	case strings.HasPrefix(name, "hdmi:"):
		// It selects the port for display settings, not whether they apply.
		return "hdmi", true, true
	case key == "edid" && hasValue:
		return "edid", false, true // no monitor
	case strings.HasPrefix(key, "gpio") && hasValue:
		return key, false, false
	}
	return "unknown", false, false
}

// modelName says whether name has the form of a model filter, for models that
// are yet to come as well.
func modelName(name string) bool {
	for _, prefix := range []string{"pi", "cm"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return true
		}
	}
	return false
}
