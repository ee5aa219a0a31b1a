package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"machined/images/oci"
	"machined/images/parts"
)

// runtimeModule is the nested Go module that pins the container runtime, from
// the directory of the sources.
const runtimeModule = "runtime"

// pauseName is the image that holds a pod's namespaces.
const pauseName = "machined.local/pause:1"

// goProgram is a program that is built from the nested module.
type goProgram struct {
	component string
	pkg       string // its import path
	module    string // whose version and licence it has
	license   string
	path      string // in the slot's root
	tags      string
	static    bool // with cgo, linked statically, and with libseccomp
	overlay   string
}

// small leaves out inlining, which takes an eighth off a program, but for what
// a pull of an image spends its time in.
func small() []string {
	flags := []string{"-gcflags=all=-l"}
	for _, hot := range []string{"runtime/...", "internal/runtime/...", "compress/...", "github.com/klauspost/compress/...", "crypto/..."} {
		flags = append(flags, "-gcflags="+hot+"=")
	}
	return flags
}

// runtimes builds what runs pods, and lays it out as it will be in the slot.
func (c *collector) runtimes() error {
	source, err := sourceDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(source, runtimeModule)
	overlay, err := c.pluginOverlay(dir)
	if err != nil {
		return fmt.Errorf("lay out the network plugins: %w", err)
	}
	const containerd, plugins = "github.com/containerd/containerd/v2", "github.com/containernetworking/plugins"
	for _, arch := range []string{"amd64", "arm64"} {
		for _, p := range []goProgram{
			// grpcnotrace leaves out the tracing pages, and with them what keeps
			// the linker from dropping methods that nobody calls.
			{component: "containerd", pkg: "machined/runtime/containerd", module: containerd, license: "Apache-2.0",
				path: "usr/bin/containerd", tags: "grpcnotrace,netgo,osusergo"},
			{component: "containerd-shim", pkg: containerd + "/cmd/containerd-shim-runc-v2", module: containerd, license: "Apache-2.0",
				path: "usr/bin/containerd-shim-runc-v2", tags: "grpcnotrace,netgo,osusergo"},
			{component: "runc", pkg: "github.com/opencontainers/runc", module: "github.com/opencontainers/runc", license: "Apache-2.0",
				path: "usr/bin/runc", tags: "netgo,osusergo,runc_nocriu,seccomp", static: true},
			{component: "cni-plugins", pkg: "machined/runtime/cni", module: plugins, license: "Apache-2.0",
				path: pluginDir + "/cni", tags: "multicall,netgo,osusergo", overlay: overlay},
		} {
			if err := c.goProgram(p, dir, arch); err != nil {
				return fmt.Errorf("build %s for %s: %w", p.component, arch, err)
			}
		}
		if err := c.pause(dir, arch); err != nil {
			return fmt.Errorf("make the pause image for %s: %w", arch, err)
		}
	}
	return nil
}

// sourceDir is the directory of the main module, wherever in it this runs.
func sourceDir() (string, error) {
	file, err := output("go", "env", "GOMOD")
	return filepath.Dir(file), err
}

// rootPart is the name of a part that goes to path in the root of the slots of
// an architecture.
func rootPart(arch, path string) string { return "root/" + arch + "/" + path }

func (c *collector) goProgram(p goProgram, dir, arch string) error {
	env := []string{"GOOS=linux", "GOARCH=" + arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "CGO_ENABLED=0"}
	ldflags := "-s -w -buildid="
	if p.static {
		env = append(env, "CGO_ENABLED=1", "CC="+compiler(arch))
		ldflags += " -linkmode external -extldflags '-static -s -Wl,--build-id=none'"
	}
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-tags", p.tags, "-ldflags", ldflags}, small()...)
	recipe := fmt.Sprint(p.pkg, env, args)
	if p.static {
		library, version, err := c.seccomp(arch)
		if err != nil {
			return err
		}
		env, recipe = append(env, library...), recipe+version
	}
	if p.overlay != "" {
		plugins, err := keyOf("", filepath.Join(c.work, pluginSources))
		if err != nil {
			return err
		}
		args, recipe = append(args, "-overlay", p.overlay), recipe+plugins
	}
	key, err := runtimeKey(dir, recipe, p.static, arch)
	if err != nil {
		return err
	}
	file, err := c.cached(p.component+"-"+arch, key, func(path string) error {
		return c.runIn(dir, env, "go", append(args, "-o", path, p.pkg)...)
	})
	if err != nil {
		return err
	}
	return c.addProgram(p, dir, arch, file)
}

// seccomp returns the variables by which runc is linked with the static
// libseccomp, which filters the system calls of containers. Where it is goes
// into the compiler's variables and not into what pkg-config prints: go build
// would keep the latter in its cache, for a directory that is soon gone.
func (c *collector) seccomp(arch string) (env []string, version string, err error) {
	dir, version, err := c.debian("libseccomp-dev", arch)
	if err != nil {
		return nil, "", err
	}
	component := "libseccomp-" + arch
	c.index.Components = append(c.index.Components, parts.Component{
		Name: component, Version: version, License: "LGPL-2.1-only", Source: "Debian package libseccomp-dev:" + arch,
	})
	copyright, err := os.ReadFile(filepath.Join(dir, "usr/share/doc/libseccomp-dev/copyright"))
	if err != nil {
		return nil, "", err
	}
	const description = "Name: libseccomp\nDescription: system call filters\nVersion: %s\nLibs: -lseccomp\n"
	upstream, _, _ := strings.Cut(version, "-")
	env = []string{
		"PKG_CONFIG_LIBDIR=" + dir, "PKG_CONFIG_SYSROOT_DIR=", "PKG_CONFIG_PATH=",
		"CGO_CFLAGS=-O2 -I" + filepath.Join(dir, "usr/include"),
		"CGO_LDFLAGS=-O2 -L" + filepath.Join(dir, "usr/lib", multiarch(arch)),
	}
	return env, version, errors.Join(
		os.WriteFile(filepath.Join(dir, "libseccomp.pc"), fmt.Appendf(nil, description, upstream), 0o644),
		c.text(component, rootPart(arch, licenseDir+"/libseccomp/copyright"), copyright),
	)
}

// runtimeKey stands for the sources, the compilers and the flags.
func runtimeKey(dir, flags string, static bool, arch string) (string, error) {
	recipe, err := outputIn(dir, "go", "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	if static {
		version, err := output(compiler(arch), "--version")
		if err != nil {
			return "", fmt.Errorf("find the C compiler; `make setup` installs it: %w", err)
		}
		recipe += version
	}
	return keyOf(recipe+flags, dir)
}

func (c *collector) addProgram(p goProgram, dir, arch, file string) error {
	component := p.component + "-" + arch
	modules, licenses, err := c.linkedModules(file, dir)
	if err != nil {
		return err
	}
	version, err := outputIn(dir, "go", "list", "-m", "-f", "{{.Version}}", p.module)
	if err != nil {
		return err
	}
	c.index.Components = append(c.index.Components, parts.Component{
		Name: component, Version: version, License: p.license, Source: p.module, GoModules: modules,
	})
	return errors.Join(
		c.add(component, rootPart(arch, p.path), file),
		c.text(component, rootPart(arch, licenseDir+"/"+p.component+"/LICENSES"), licenses),
	)
}

// licenseDir is where the slot's root has the licences of what it holds; packed
// with the rest they take a tenth of their size.
const licenseDir = "usr/share/licenses"

// compiler returns the C compiler for an architecture. Also a machine of that
// architecture has it under the long name.
func compiler(arch string) string { return multiarch(arch) + "-gcc" }

// multiarch is Debian's name of an architecture.
func multiarch(arch string) string {
	if arch == "arm64" {
		return "aarch64-linux-gnu"
	}
	return "x86_64-linux-gnu"
}

// pause makes the image that every pod starts from, which no registry has to
// be asked for.
func (c *collector) pause(dir, arch string) error {
	program := filepath.Join(c.work, "pause-"+arch)
	err := c.run(nil, compiler(arch), "-Os", "-static", "-nostdlib", "-ffreestanding", "-fno-pie", "-no-pie", "-fno-stack-protector",
		"-fno-asynchronous-unwind-tables", "-Wall", "-Wextra", "-Werror", "-s", "-Wl,-n", "-Wl,--build-id=none",
		"-o", program, filepath.Join(dir, "pause", "pause.c"))
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var image strings.Builder
	_, err = oci.Write(&image, oci.Image{
		Name: pauseName, Arch: arch, Entrypoint: []string{"/pause"}, Files: []oci.File{{Path: "pause", Mode: 0o755, Data: binary}},
	})
	if err != nil {
		return err
	}
	return c.text("machined-"+arch, rootPart(arch, "usr/share/machined/pause.tar"), []byte(image.String()))
}
