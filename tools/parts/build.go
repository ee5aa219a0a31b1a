package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"machined/images/parts"
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
		modules, err := c.linkedModules(component, path)
		if err != nil {
			return err
		}
		c.index.Components = append(c.index.Components, parts.Component{
			Name: component, Version: c.index.Version, License: "Apache-2.0", Source: "this repository", GoModules: modules,
		})
		if err := c.register(component, name); err != nil {
			return err
		}
	}
	return nil
}

// template makes the small ext4 that becomes STATE: 3 MiB, which the node
// writes in a second even without DMA, and grows to the size of its partition.
// Small blocks keep the journal small. metadata_csum_seed keeps the checksums
// apart from the UUID.
func (c *collector) template() error {
	image := filepath.Join(c.work, "state.ext4")
	if err := os.Truncate(image, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	const uuid = "6d616368-696e-6564-5354-415445000000"
	err := c.run([]string{"E2FSPROGS_FAKE_TIME=" + strconv.FormatInt(c.index.BuildTime, 10), "MKE2FS_DEVICE_SECTSIZE=512"},
		"mke2fs", "-q", "-t", "ext4", "-b", "1024", "-I", "256", "-N", "128", "-m", "0", "-L", "STATE", "-U", uuid,
		"-E", "hash_seed="+uuid+",lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0", "-J", "size=1",
		"-O", "64bit,metadata_csum,metadata_csum_seed,^resize_inode,meta_bg", image, "3M")
	if err != nil {
		return err
	}
	c.index.Components = append(c.index.Components, parts.Component{
		Name: "state-template", Version: c.index.Version, License: "Apache-2.0", Source: "made by mke2fs of Debian package e2fsprogs; holds no code",
	})
	return c.make("state-template", "state.ext4.gz", func(w io.Writer) error { return compress(w, image) })
}
