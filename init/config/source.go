package config

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Source is a place that a config may be in.
type Source struct {
	// Name is for people, such as the path of the file.
	Name string
	// Read returns the whole config. An error that matches fs.ErrNotExist
	// means that there is none here.
	Read func() ([]byte, error)
}

// Rejected is a source that has a config which cannot be used.
type Rejected struct {
	Name string
	Err  error
}

// Summary is one line that says which source is passed over and why.
func (r Rejected) Summary() string {
	var faults Errors
	if !errors.As(r.Err, &faults) {
		return fmt.Sprintf("config source %s cannot be read and is passed over: %v", r.Name, r.Err)
	}
	if len(faults) == 1 {
		return fmt.Sprintf("config source %s has an error and is passed over", r.Name)
	}
	return fmt.Sprintf("config source %s has %d errors and is passed over", r.Name, len(faults))
}

// Details are the errors of the config, a line each; none if it could not be
// read at all.
func (r Rejected) Details() []string {
	var faults Errors
	if !errors.As(r.Err, &faults) {
		return nil
	}
	return lines(faults)
}

// BuiltinName is the name of the source that is used when no other is valid.
const BuiltinName = "built-in default"

// Loaded is the config that a node runs with, and how it came by it.
type Loaded struct {
	Config *Config
	// Source is the name of the source that the config is from.
	Source string
	// Raw is the file as it was read, with its secrets: see Redact.
	Raw      []byte
	Warnings Warnings
	// Rejected are the sources before Source that could not be used. To pass
	// over one in silence would leave the user with a node that ignores the
	// file under their eyes.
	Rejected []Rejected
}

// Load returns the config of the first source that has a valid one. It always
// returns a config, the built-in default if need be: a node without an API could
// not be repaired from afar.
func Load(sources []Source) Loaded {
	var out Loaded
	for _, s := range sources {
		raw, err := s.Read()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var c *Config
		var warnings Warnings
		if err == nil {
			c, warnings, err = Parse(s.Name, raw)
		}
		if err != nil {
			out.Rejected = append(out.Rejected, Rejected{Name: s.Name, Err: err})
			continue
		}
		out.Config, out.Source, out.Raw, out.Warnings = c, s.Name, slices.Clip(raw), warnings
		return out
	}
	out.Config, out.Source, out.Raw = Default(), BuiltinName, []byte("machine: {}\n")
	return out
}
