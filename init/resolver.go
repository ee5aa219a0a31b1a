package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	resolvConf = "/run/machined/resolv.conf"
	// resolverTrouble stands among the links' names; none has a space.
	resolverTrouble = "the resolver"
)

// resolve writes the file for the resolver when something has changed.
func (n *network) resolve() {
	if n.resolver {
		return
	}
	if err := replaceFile(n.resolvConf, formatResolvConf(n.resolvers())); err != nil {
		n.trouble(resolverTrouble, err)
		return
	}
	n.resolver = true
	delete(n.troubles, resolverTrouble)
}

// resolvers returns the servers and domains of the config, or else those of
// DHCP.
func (n *network) resolvers() (servers []netip.Addr, search []string) {
	for _, name := range slices.Sorted(maps.Keys(n.leases)) {
		servers = append(servers, n.leases[name].nameservers...)
		search = append(search, n.leases[name].search...)
	}
	if len(n.config.Nameservers) > 0 {
		servers = n.config.Nameservers
	}
	if len(n.config.Search) > 0 {
		search = n.config.Search
	}
	return servers, search
}

// formatResolvConf follows resolv.conf(5). Domains come from the network, too:
// one that could not be a word in a line is left out.
func formatResolvConf(servers []netip.Addr, search []string) []byte {
	var b bytes.Buffer
	for _, s := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	search = slices.DeleteFunc(slices.Clone(search), func(s string) bool {
		return s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
	})
	if len(search) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(search, " "))
	}
	return b.Bytes()
}

// replaceFile swaps the file's contents in one step, for readers that may come
// at any time. It is for tmpfs: nothing is synced.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
