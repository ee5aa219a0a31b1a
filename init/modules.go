package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"machined/init/kmod"
)

const modulesDir = "/lib/modules"

// runtimeModules lists the kernel modules that pods need. The kernel would ask
// modprobe(8) for most of them when they are used first, and there is none.
func runtimeModules() []string {
	return []string{
		"overlay", "bridge", "veth", "br_netfilter",
		"nf_tables", "nf_conntrack", "nf_nat", "nft_chain_nat", "nft_nat", "nft_masq", "nft_ct", "nft_fib", "nft_fib_inet",
	}
}

// loader returns a loader of the running kernel's modules.
func (n *node) loader() (*kmod.Loader, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, fmt.Errorf("find the kernel's release: %w", err)
	}
	dir := n.at(filepath.Join(modulesDir, unix.ByteSliceToString(u.Release[:])))
	return &kmod.Loader{
		Modules: os.DirFS(dir), Devices: os.DirFS(n.at("/sys/devices")), Report: n.say("modules"),
		Insert: func(file string) error { return kmod.Insert(filepath.Join(dir, file)) },
	}, nil
}

// loadModules loads the kernel modules that match the devices, in the
// background: a link that a module brings is seen when it comes.
func (n *node) loadModules() error {
	loader, err := n.loader()
	if err != nil {
		return err
	}
	n.spawn("modules", func() {
		if err := loader.Run(); err != nil {
			n.log.Printf("modules", "%v.", err)
		}
	})
	return nil
}

// loadRuntimeModules loads what pods need of the kernel, before containerd
// starts. What the kernel lacks is told once: pods that use it will say more.
func (n *node) loadRuntimeModules() error {
	loader, err := n.loader()
	if err != nil {
		return err
	}
	missing, err := loader.LoadNamed(runtimeModules())
	if err != nil {
		return fmt.Errorf("load the kernel modules for pods: %w", err)
	}
	if len(missing) > 0 {
		n.log.Printf("modules", "This kernel lacks %s, which pods may need.", strings.Join(missing, ", "))
	}
	return nil
}
