package config

import (
	"fmt"
	"net/netip"
	"strings"

	"machined/init/containerd"
)

// Runtime is the container runtime that machined runs as ContainerdID.
type Runtime struct {
	Disabled bool
	Binary   string
	Socket   string
	// ConfigPath is where the runtime's own config is written.
	ConfigPath string
	// AdoptConfig leaves the file at ConfigPath as it is, and uses it.
	AdoptConfig bool
	// ResetOnCorruption has a damaged metadata database moved aside, and with it
	// all that the runtime knows: images come anew from card or registry.
	ResetOnCorruption bool
	// PodSubnet is the network of pods that are not on the host's.
	PodSubnet  netip.Prefix
	Registries []Registry
}

// Registry is how images of one host are pulled.
type Registry struct {
	// Host is as in image references, such as docker.io or 192.0.2.1:5000.
	Host string
	// Mirrors are URLs that are asked first, in this order.
	Mirrors []string
	// Username and Password log in to Host. Password is a secret: see Redact.
	Username, Password string
}

func defaultPodSubnet() netip.Prefix { return netip.MustParsePrefix("10.88.0.0/16") }

func (d *decoder) runtime(v value) Runtime {
	o := d.object(v, "disabled", "binary", "socket", "config_path", "adopt_config", "reset_on_corruption", "pod_subnet", "registries")
	return Runtime{
		Disabled: d.boolean(o.get("disabled"), false),
		Binary:   scalar(d, o.get("binary"), containerd.Program, parsePath),
		Socket:   scalar(d, o.get("socket"), containerd.Socket, parseSocket),
		// The root is read-only, so that the default is below /run.
		ConfigPath:        scalar(d, o.get("config_path"), containerd.ConfigFile, parsePath),
		AdoptConfig:       d.boolean(o.get("adopt_config"), false),
		ResetOnCorruption: d.boolean(o.get("reset_on_corruption"), false),
		PodSubnet:         scalar(d, o.get("pod_subnet"), defaultPodSubnet(), parsePodSubnet),
		Registries:        d.registries(o.get("registries")),
	}
}

// parsePodSubnet wants room for the bridge and some pods.
func parsePodSubnet(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() || p.Masked() != p || p.Bits() < 8 || p.Bits() > 28 {
		return netip.Prefix{}, fmt.Errorf("want an IPv4 network of /8 to /28 such as 10.88.0.0/16; got %s", quote(s))
	}
	return p, nil
}

func (d *decoder) registries(v value) []Registry {
	var out []Registry
	seen := names{}
	for _, item := range d.list(v) {
		o := d.object(item, "host", "mirrors", "username", "password")
		host := d.need(o, "host")
		r := Registry{
			Host: scalar(d, host, "", parseRegistry), Mirrors: scalars(d, o.get("mirrors"), parseMirror),
			Username: scalar(d, o.get("username"), "", parseArgument), Password: scalar(d, o.get("password"), "", parseSecret),
		}
		if (r.Username == "") != o.get("username").absent() || o.get("username").absent() != o.get("password").absent() {
			d.errorf(o.value, "want username and password, or neither")
		}
		if r.Host != "" {
			seen.add(d, host, "registry", r.Host)
		}
		out = append(out, r)
	}
	return out
}

func parseRegistry(s string) (string, error) {
	if !isHost(s) && parseHostPort(s) != nil {
		return "", fmt.Errorf("want a host or host:port such as docker.io; got %s", quote(s))
	}
	return s, nil
}

func parseMirror(s string) (string, error) {
	if strings.ContainsAny(s, "?#\"\\") {
		return "", fmt.Errorf("want a URL without query such as https://mirror.example; got %s", quote(s))
	}
	if _, err := parseProbeURL(s); err != nil {
		return "", fmt.Errorf("want a URL such as https://mirror.example; got %s", quote(s))
	}
	return strings.TrimSuffix(s, "/"), nil
}

// parseSecret is parseArgument with errors that do not show the text.
func parseSecret(s string) (string, error) {
	if _, err := parseArgument(s); err != nil {
		return "", fmt.Errorf("want a text without NUL bytes")
	}
	return s, nil
}
