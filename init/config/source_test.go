package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"testing"
)

func TestLoad(t *testing.T) {
	source := func(name, text string, err error) Source {
		return Source{Name: name, Read: func() ([]byte, error) { return []byte(text), err }}
	}
	absent := source("STATE", "", fmt.Errorf("open: %w", fs.ErrNotExist))
	broken := source("boot partition", "", errors.New("input/output error"))
	invalid := source("boot partition", "machine: {hostnam: a}\n", nil)
	worse := source("image", "a: 1\nb: 2\n", nil)
	good := source("netboot", "machine: {hostname: net, pods: []}\n", nil)
	second := source("image", "machine: {hostname: img}\n", nil)
	for _, tt := range []struct {
		name             string
		sources          []Source
		source, hostname string
		report           []string
	}{
		{"none", nil, BuiltinName, "", nil},
		{"all absent", []Source{absent, absent}, BuiltinName, "", nil},
		{"first wins", []Source{absent, good, second}, "netboot", "net", nil},
		{"unreadable", []Source{broken, good}, "netboot", "net", []string{
			"config source boot partition cannot be read and is passed over: input/output error",
		}},
		{"invalid", []Source{invalid, worse}, BuiltinName, "", []string{
			"config source boot partition has an error and is passed over",
			`boot partition:1:11: machine.hostnam: unknown field; did you mean "hostname"?`,
			"config source image has 2 errors and is passed over",
			"image:1:1: a: unknown field",
			"image:2:1: b: unknown field",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Load(tt.sources)
			if got.Source != tt.source || got.Config.Machine.Hostname != tt.hostname {
				t.Errorf("Load = %q from %q; want %q from %q", got.Config.Machine.Hostname, got.Source, tt.hostname, tt.source)
			}
			var report []string
			for _, r := range got.Rejected {
				report = append(append(report, r.Summary()), r.Details()...)
			}
			if !reflect.DeepEqual(report, tt.report) {
				t.Errorf("rejected = %q; want %q", report, tt.report)
			}
			// What is published can be parsed, also for the default.
			c, warnings, err := Parse(got.Source, got.Raw)
			if err != nil || !reflect.DeepEqual(c, got.Config) || !reflect.DeepEqual(warnings, got.Warnings) {
				t.Errorf("Parse(Raw) = %+v, %v, %v; want the loaded config", c, warnings, err)
			}
		})
	}
}
