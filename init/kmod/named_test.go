package kmod

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestLoadNamed loads a module after what it needs, and neither what is built
// in nor what is not there.
func TestLoadNamed(t *testing.T) {
	var loaded, said []string
	l := Loader{
		Modules: fstest.MapFS{
			"modules.dep":     {Data: []byte("kernel/net/br-netfilter.ko: kernel/net/bridge.ko\nkernel/net/bridge.ko:\nkernel/bad.ko:\n")},
			"modules.alias":   {},
			"modules.builtin": {Data: []byte("kernel/drivers/net/veth.ko\n")},
		},
		Insert: func(file string) error {
			if file == "kernel/bad.ko" {
				return errors.New("no such symbol")
			}
			loaded = append(loaded, file)
			return nil
		},
		Report: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
	}
	missing, err := l.LoadNamed([]string{"veth", "br_netfilter", "bridge", "bad", "overlay"})
	if err != nil || !slices.Equal(missing, []string{"overlay"}) {
		t.Errorf("LoadNamed() = %q, %v; want overlay missing", missing, err)
	}
	if want := []string{"kernel/net/bridge.ko", "kernel/net/br-netfilter.ko"}; !slices.Equal(loaded, want) {
		t.Errorf("loaded %q; want %q", loaded, want)
	}
	if want := "load module bad: no such symbol.|Loaded br_netfilter, bridge."; strings.Join(said, "|") != want {
		t.Errorf("said %q; want %q", said, want)
	}
}

func TestLoadNamedWithoutModules(t *testing.T) {
	l := Loader{Modules: fstest.MapFS{}}
	if missing, err := l.LoadNamed([]string{"veth"}); missing != nil || err != nil {
		t.Errorf("LoadNamed() = %q, %v on a kernel without modules; want nothing", missing, err)
	}
}
