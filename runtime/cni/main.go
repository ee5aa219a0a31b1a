//go:build multicall

// Command cni is four network plugins in one program, which takes the name
// that it was started by for the plugin's. One Go runtime instead of four is
// most of their size. The plugins are commands, which no program can import:
// tools/parts lays them out as packages below this directory while it builds.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"machined/runtime/cni/bridge"
	hostlocal "machined/runtime/cni/host-local"
	"machined/runtime/cni/loopback"
	"machined/runtime/cni/portmap"
)

func main() {
	plugins := map[string]func(){
		"bridge": bridge.Main, "host-local": hostlocal.Main, "loopback": loopback.Main, "portmap": portmap.Main,
	}
	name := filepath.Base(os.Args[0])
	plugin, ok := plugins[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "cni: there is no plugin %q; start this program by the name of one\n", name)
		os.Exit(1)
	}
	plugin()
}
