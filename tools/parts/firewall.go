package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"machined/images/parts"
)

// debianFile is a file that is taken from a Debian package; MULTIARCH in its
// name stands for the architecture's directory. Libraries go to usr/lib.
type debianFile struct{ pkg, license, from string }

// firewall lists what nft(8) is made of: the network plugins run it to write
// the rules for masquerading and ports.
func firewall() []debianFile {
	const lib, usr = "lib/MULTIARCH/", "usr/lib/MULTIARCH/"
	return []debianFile{
		{"nftables", "GPL-2.0-only", "usr/sbin/nft"},
		{"libnftables1", "GPL-2.0-only", usr + "libnftables.so.1"},
		{"libnftnl11", "GPL-2.0-or-later", usr + "libnftnl.so.11"},
		{"libmnl0", "LGPL-2.1-or-later", usr + "libmnl.so.0"},
		{"libjansson4", "MIT", usr + "libjansson.so.4"},
		{"libgmp10", "LGPL-3.0-or-later OR GPL-2.0-or-later", usr + "libgmp.so.10"},
		{"libxtables12", "GPL-2.0-or-later", usr + "libxtables.so.12"},
		{"libedit2", "BSD-3-Clause", usr + "libedit.so.2"},
		{"libbsd0", "BSD-3-Clause AND BSD-2-Clause AND ISC AND Beerware", usr + "libbsd.so.0"},
		{"libmd0", "BSD-3-Clause AND BSD-2-Clause AND ISC AND Beerware", usr + "libmd.so.0"},
		{"libtinfo6", "MIT-open-group AND X11 AND BSD-3-Clause", lib + "libtinfo.so.6"},
		{"libc6", "LGPL-2.1-or-later", lib + "libc.so.6"},
	}
}

// firewalls takes nft and its libraries for both architectures.
func (c *collector) firewalls() error {
	for _, m := range []struct{ arch, loader, loaderPath string }{
		{"amd64", "lib/MULTIARCH/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"},
		{"arm64", "lib/MULTIARCH/ld-linux-aarch64.so.1", "lib/ld-linux-aarch64.so.1"},
	} {
		for _, f := range firewall() {
			to := "usr/lib/" + path.Base(f.from)
			if path.Base(f.from) == "nft" {
				to = "usr/sbin/nft"
			}
			files := map[string]string{strings.ReplaceAll(f.from, "MULTIARCH", multiarch(m.arch)): to}
			if f.pkg == "libc6" {
				files[strings.ReplaceAll(m.loader, "MULTIARCH", multiarch(m.arch))] = m.loaderPath
			}
			if err := c.debianFiles(f.pkg, f.license, m.arch, files); err != nil {
				return fmt.Errorf("take %s for %s: %w", f.pkg, m.arch, err)
			}
		}
	}
	return nil
}

// debianFiles adds files of a package as parts of the slot's root, with the
// package's statement of its licences.
func (c *collector) debianFiles(pkg, license, arch string, files map[string]string) error {
	dir, version, err := c.debian(pkg, arch)
	if err != nil {
		return err
	}
	component := pkg + "-" + arch
	c.index.Components = append(c.index.Components, parts.Component{
		Name: component, Version: version, License: license, Source: "Debian package " + pkg + ":" + arch,
	})
	var errs []error
	for from, to := range files {
		file, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(from)))
		if err != nil {
			return err
		}
		errs = append(errs, c.add(component, rootPart(arch, to), file))
	}
	copyright, err := os.ReadFile(filepath.Join(dir, "usr/share/doc", pkg, "copyright"))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, c.text(component, rootPart(arch, licenseDir+"/"+pkg+"/copyright"), copyright))...)
}
