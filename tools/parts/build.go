package main

import (
	"fmt"
	"io"
	"path/filepath"

	"machined/images/parts"
	"machined/tools/parts/ext4"
)

// programs builds machined for both architectures.
func (c *collector) programs() error {
	for _, arch := range []string{"amd64", "arm64"} {
		name := "machined/" + arch
		path := filepath.Join(c.store, filepath.FromSlash(name))
		ldflags := fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.buildTime=%d", c.index.Version, c.index.BuildTime)
		// grpcnotrace leaves out the tracing pages, and with them HTML
		// templates.
		err := c.run([]string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT="},
			"go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", ldflags, "-o", path, "machined/init")
		if err != nil {
			return err
		}
		component := "machined-" + arch
		modules, licenses, err := c.linkedModules(path, "")
		if err != nil {
			return err
		}
		c.index.Components = append(c.index.Components, parts.Component{
			Name: component, Version: c.index.Version, License: "Apache-2.0", Source: "this repository", GoModules: modules,
		})
		if err := c.text(component, "licenses/"+component+"/LICENSES", licenses); err != nil {
			return err
		}
		if err := c.register(component, name); err != nil {
			return err
		}
	}
	return nil
}

// templates makes the empty file systems that volumes start from.
func (c *collector) templates() error {
	c.index.Components = append(c.index.Components, parts.Component{
		Name: "volume-templates", Version: c.index.Version, License: "Apache-2.0", Source: "made by mke2fs of Debian package e2fsprogs; holds no code",
	})
	for _, t := range ext4.Templates() {
		image := filepath.Join(c.work, t.Name+".image")
		if err := t.Make(image, c.index.BuildTime, c.run); err != nil {
			return fmt.Errorf("make %s: %w", t.Name, err)
		}
		if err := c.make("volume-templates", t.Name, func(w io.Writer) error { return compress(w, image) }); err != nil {
			return err
		}
	}
	return nil
}
