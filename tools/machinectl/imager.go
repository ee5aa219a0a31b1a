package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"machined/images/oci"
)

// imagerFile is the file of --imager: the flags of `image build`, for keeping.
type imagerFile struct {
	Board  string   `yaml:"board"`
	Out    string   `yaml:"out"`
	Config string   `yaml:"config"`
	PKI    string   `yaml:"pki"`
	Images []string `yaml:"images"`
	// Programs are files by the names that they get on the card.
	Programs map[string]string `yaml:"programs"`
}

// readImager fills in what the flags left open. Paths in the file start at its
// directory.
func (f *imageFlags) readImager() error {
	if f.imager == "" {
		return nil
	}
	text, err := os.ReadFile(f.imager)
	if err != nil {
		return err
	}
	var file imagerFile
	if len(bytes.TrimSpace(text)) > 0 {
		if err := yaml.Load(text, &file, yaml.WithKnownFields()); err != nil {
			return fmt.Errorf("read the imager file %s; it takes board, out, config, pki, images and programs: %w", f.imager, err)
		}
	}
	from := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(f.imager), path)
	}
	for _, s := range []struct {
		flag  *string
		value string
	}{{&f.board, file.Board}, {&f.out, from(file.Out)}, {&f.config, from(file.Config)}, {&f.pki, from(file.PKI)}} {
		if *s.flag == "" {
			*s.flag = s.value
		}
	}
	for _, path := range file.Images {
		f.oci = append(f.oci, from(path))
	}
	for name, path := range file.Programs {
		if f.programs == nil {
			f.programs = make(map[string]string)
		}
		if _, given := f.programs[name]; !given {
			f.programs[name] = from(path)
		}
	}
	return nil
}

// complete says what neither the flags nor the file have.
func (f *imageFlags) complete() error {
	var missing []string
	if f.board == "" {
		missing = append(missing, `"board"`)
	}
	if f.out == "" {
		missing = append(missing, `"out"`)
	}
	if len(missing) > 0 {
		return usagef("required flag(s) %s not set, and not by the file of --imager", strings.Join(missing, ", "))
	}
	return nil
}

// containers reads and checks the container images for the card.
func (f *imageFlags) containers() ([]*oci.Source, error) {
	var list []*oci.Source
	for _, path := range f.oci {
		s, err := oci.Read(path)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}
