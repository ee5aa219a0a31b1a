package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"machined/init/kmod"
)

const modulesDir = "/lib/modules"

// loadModules loads the kernel modules that match the devices, in the
// background: a link that a module brings is seen when it comes.
func (n *node) loadModules() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("find the kernel's release: %w", err)
	}
	dir := n.at(filepath.Join(modulesDir, unix.ByteSliceToString(u.Release[:])))
	n.spawn("modules", func() {
		loader := kmod.Loader{
			Modules: os.DirFS(dir), Devices: os.DirFS(n.at("/sys/devices")), Report: n.say("modules"),
			Insert: func(file string) error { return kmod.Insert(filepath.Join(dir, file)) },
		}
		if err := loader.Run(); err != nil {
			n.log.Printf("modules", "%v.", err)
		}
	})
	return nil
}
