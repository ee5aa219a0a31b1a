package network

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// DefaultHostname is the name of a node that neither its config nor DHCP names.
const DefaultHostname = "machined"

// Hostname sets the host name: that of the settings, else that of the first
// lease which has one.
type Hostname struct {
	Settings func() *Settings
	Host     hal.Host
}

// namesEvery is how often the host name, the resolver's file and sysctls are looked
// at.
const namesEvery = time.Minute

func (*Hostname) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name: "hostname", Inputs: []resource.Kind{resource.MachineConfigKind, resource.LeaseStatusKind},
		Outputs: []reconcile.Output{{Kind: resource.HostnameSpecKind}}, Interval: namesEvery,
	}
}

func (c *Hostname) Reconcile(r *reconcile.Run) error {
	name := c.Settings().Hostname
	for i := 0; i < r.Store.Leases.Len() && name == ""; i++ {
		lease, _ := r.Store.Leases.At(i)
		name = lease.Hostname
	}
	if name == "" {
		name = DefaultHostname
	}
	failed := r.Store.HostnameSpecs.Put(r.By, resource.HostnameSpec{Hostname: name})
	present, err := c.Host.Hostname()
	if err == nil && present != name {
		err = c.Host.SetHostname(name)
	}
	return reconcile.First(failed, err)
}

// Resolver writes the resolver's file: what the settings say, and for what they
// do not say, the leases.
type Resolver struct {
	Settings func() *Settings
	Files    hal.Files
	// Path of the file, on a file system that is fast to write.
	Path string
}

func (*Resolver) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name: "resolver", Inputs: []resource.Kind{resource.MachineConfigKind, resource.LeaseStatusKind},
		Outputs: []reconcile.Output{{Kind: resource.ResolverSpecKind}}, Interval: namesEvery,
	}
}

func (c *Resolver) Reconcile(r *reconcile.Run) error {
	settings := c.Settings()
	spec := resource.ResolverSpec{Nameservers: settings.Nameservers, Search: settings.Search}
	for i := 0; i < r.Store.Leases.Len(); i++ {
		lease, _ := r.Store.Leases.At(i)
		if settings.Nameservers == "" {
			spec.Nameservers = addWords(spec.Nameservers, lease.Nameservers)
		}
		if settings.Search == "" {
			spec.Search = addWords(spec.Search, lease.Search)
		}
	}
	failed := r.Store.ResolverSpecs.Put(r.By, spec)
	want := resolvConf(spec)
	there, err := c.Files.Read(c.Path)
	if errors.Is(err, hal.ErrNotFound) || err == nil && !bytes.Equal(there, want) {
		err = c.Files.Replace(c.Path, want, true)
	}
	return reconcile.First(failed, err)
}

// addWords adds the words of a list that it does not have yet.
func addWords(list, more string) string {
	for _, word := range strings.Fields(more) {
		if !strings.Contains(" "+list+" ", " "+word+" ") {
			if list != "" {
				list += " "
			}
			list += word
		}
	}
	return list
}

// resolvConf follows resolv.conf(5). Domains come from the network, too: one
// that could not be a word in a line is left out.
func resolvConf(spec resource.ResolverSpec) []byte {
	var out []byte
	for _, server := range strings.Fields(spec.Nameservers) {
		out = append(append(append(out, "nameserver "...), server...), '\n')
	}
	search := ""
	for _, domain := range strings.Fields(spec.Search) {
		if strings.IndexFunc(domain, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0 {
			search = addWords(search, domain)
		}
	}
	if search != "" {
		out = append(append(append(out, "search "...), search...), '\n')
	}
	return out
}
