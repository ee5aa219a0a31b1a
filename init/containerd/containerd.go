// Package containerd renders what containerd and its network plugins read: the
// configuration, the network, the mirrors of registries, and an environment
// that suits the board's memory. It starts nothing and writes no files.
package containerd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Where the parts of a slot and the directories of containerd are.
const (
	Program = "/usr/bin/containerd"
	Socket  = "/run/containerd/containerd.sock"
	// ConfigFile, NetworkFile and HostsDir are where the texts below belong.
	ConfigFile  = "/run/containerd/config.toml"
	NetworkDir  = "/run/containerd/net.d"
	NetworkFile = NetworkDir + "/10-machined.conflist"
	HostsDir    = "/run/containerd/certs.d"
	// PauseImage is the image that every pod starts from, and PauseFile the
	// tarball that `containerd import` takes it from.
	PauseImage = "machined.local/pause:1"
	PauseFile  = "/usr/share/machined/pause.tar"
	// LeaseDir is where host-local keeps the addresses it gave out. No pod
	// outlives a boot, so that the directory must not either: what a power cut
	// left in it would never be given back.
	LeaseDir = "/run/cni/networks"

	// Root is what containerd keeps, and State what it has while it runs.
	Root  = "/var/lib/containerd"
	State = "/run/containerd"

	pluginDir  = "/usr/lib/cni"
	bridgeName = "cni0"
)

// Config says what containerd's configuration depends on.
type Config struct {
	// Socket is where containerd answers; empty for Socket.
	Socket string
	// Downloads is how many layers of an image are fetched at once; 0 is 2.
	Downloads int
	// LogLevel is debug, info, warn or error; empty for warn.
	LogLevel string
}

// TOML renders the configuration (version 4, containerd 2.4).
func (c Config) TOML() []byte {
	if c.Downloads <= 0 {
		c.Downloads = 2
	}
	if c.LogLevel == "" {
		c.LogLevel = "warn"
	}
	if c.Socket == "" {
		c.Socket = Socket
	}
	var t table
	t.set("version", 4)
	t.set("root", Root)
	t.set("state", State)
	t.set("required_plugins", []string{"io.containerd.grpc.v1.cri"})
	// Measuring every call costs memory, and nobody asks.
	t.set("disabled_plugins", []string{
		"io.containerd.metrics.v1.grpc-otel", "io.containerd.metrics.v1.grpc-prometheus",
		"io.containerd.monitor.task.v1.cgroups", "io.containerd.server.v1.grpc-tcp",
	})
	t.begin("debug")
	t.set("level", c.LogLevel)
	t.begin("plugins", "io.containerd.server.v1.grpc")
	t.set("address", c.Socket)
	t.begin("plugins", "io.containerd.server.v1.ttrpc")
	t.set("address", c.Socket+".ttrpc")
	c.images(&t)
	c.runtime(&t)
	return t.Bytes()
}

// images is how images are pulled and kept.
func (c Config) images(t *table) {
	t.begin("plugins", "io.containerd.cri.v1.images")
	t.set("snapshotter", "overlayfs")
	// The layers of an unpacked image are on the card twice otherwise.
	t.set("discard_unpacked_layers", true)
	// The transfer service, which pulls otherwise, cannot discard them.
	t.set("use_local_image_pull", true)
	t.set("max_concurrent_downloads", c.Downloads)
	// A power cut must not leave an image that is there and empty.
	t.set("image_pull_with_sync_fs", true)
	t.set("stats_collect_period", 60)
	t.begin("plugins", "io.containerd.cri.v1.images", "pinned_images")
	t.set("sandbox", PauseImage)
	t.begin("plugins", "io.containerd.cri.v1.images", "registry")
	t.set("config_path", HostsDir)
}

// runtime is how containers run.
func (c Config) runtime(t *table) {
	const plugin = "io.containerd.cri.v1.runtime"
	t.begin("plugins", plugin)
	t.set("cdi_spec_dirs", []string{})
	t.set("enable_criu", false)
	t.set("disable_apparmor", true)
	t.set("enable_selinux", false)
	t.set("netns_mounts_under_state_dir", true)
	t.set("max_container_log_line_size", 16384)
	t.begin("plugins", plugin, "cni")
	t.set("bin_dirs", []string{pluginDir})
	t.set("conf_dir", NetworkDir)
	t.set("max_conf_num", 1)
	t.set("use_internal_loopback", true)
	t.begin("plugins", plugin, "containerd")
	t.set("default_runtime_name", "runc")
	t.set("ignore_blockio_not_enabled_errors", true)
	t.set("ignore_rdt_not_enabled_errors", true)
	t.begin("plugins", plugin, "containerd", "runtimes", "runc")
	t.set("runtime_type", "io.containerd.runc.v2")
	t.set("sandboxer", "podsandbox")
	t.begin("plugins", plugin, "containerd", "runtimes", "runc", "options")
	t.set("BinaryName", "/usr/bin/runc")
	t.set("SystemdCgroup", false)
	// Streams of exec and attach listen on the node itself alone.
	t.begin("plugins", "io.containerd.grpc.v1.cri")
	t.set("disable_tcp_service", true)
	t.set("stream_server_address", "127.0.0.1")
	t.set("stream_server_port", "0")
}

// Network renders the CNI configuration of the pods' network: a bridge with
// the first address of subnet, addresses from the rest of it, masquerading
// toward the world, and ports.
func Network(subnet netip.Prefix) ([]byte, error) {
	if !subnet.IsValid() || !subnet.Addr().Is4() || subnet.Bits() > 29 {
		return nil, fmt.Errorf("render the pods' network: %v is no IPv4 subnet of 8 addresses or more", subnet)
	}
	type object = map[string]any
	list := object{
		"cniVersion": "1.0.0",
		"name":       "machined",
		"plugins": []object{{
			"type": "bridge", "bridge": bridgeName, "isGateway": true, "ipMasq": true, "ipMasqBackend": "nftables",
			"hairpinMode": true, "promiscMode": false,
			"ipam": object{
				"type": "host-local", "dataDir": LeaseDir,
				"ranges": [][]object{{{"subnet": subnet.Masked().String()}}},
				"routes": []object{{"dst": "0.0.0.0/0"}},
			},
		}, {
			"type": "portmap", "backend": "nftables", "snat": true, "capabilities": object{"portMappings": true},
		}},
	}
	b, err := json.MarshalIndent(list, "", "  ")
	return append(b, '\n'), err
}

// Mirror is a registry and the servers that are asked in its place.
type Mirror struct {
	Registry  string   // host and perhaps port, as image names have it; * for all
	Endpoints []string // URLs, asked in this order and before the registry itself
	// SkipFallback keeps the registry itself from being asked.
	SkipFallback bool
}

// Hosts renders the hosts.toml of each mirror, by its path below HostsDir.
// Credentials are not there: CRI takes them with each pull.
func Hosts(mirrors []Mirror) (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, m := range mirrors {
		dir := m.Registry
		if dir == "*" {
			dir = "_default"
		}
		if dir == "" || strings.ContainsAny(dir, "/\\\x00") || strings.HasPrefix(dir, ".") {
			return nil, fmt.Errorf("render the mirrors of registry %q: it is no host", m.Registry)
		}
		var t table
		if m.SkipFallback && len(m.Endpoints) > 0 {
			t.set("server", m.Endpoints[len(m.Endpoints)-1])
		} else if dir != "_default" {
			t.set("server", "https://"+upstream(m.Registry))
		}
		for _, e := range m.Endpoints {
			t.begin("host", e)
			t.set("capabilities", []string{"pull", "resolve"})
		}
		files[dir+"/hosts.toml"] = t.Bytes()
	}
	return files, nil
}

// upstream is the server of a registry's name.
func upstream(registry string) string {
	if registry == "docker.io" {
		return "registry-1.docker.io"
	}
	return registry
}

// Environment returns the variables to start containerd with on a board of
// memory bytes. The garbage collector's aims are tighter where there is less.
func Environment(memory uint64) []string {
	limit, percent := uint64(128<<20), 100
	switch {
	case memory <= 640<<20:
		limit, percent = 32<<20, 50
	case memory <= 1200<<20:
		limit, percent = 64<<20, 75
	}
	return []string{
		"GOMEMLIMIT=" + strconv.FormatUint(limit, 10),
		"GOGC=" + strconv.Itoa(percent),
		"PATH=/usr/bin:/usr/sbin",
	}
}

// table renders TOML (toml.io, version 1.0), as far as it is needed here.
type table struct{ bytes.Buffer }

// begin starts the table of that path.
func (t *table) begin(path ...string) {
	quoted := make([]string, len(path))
	for i, p := range path {
		quoted[i] = quote(p)
	}
	fmt.Fprintf(t, "\n[%s]\n", strings.Join(quoted, "."))
}

func (t *table) set(key string, value any) {
	switch v := value.(type) {
	case string:
		value = quote(v)
	case []string:
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = quote(s)
		}
		value = "[" + strings.Join(quoted, ", ") + "]"
	}
	fmt.Fprintf(t, "%s = %v\n", key, value)
}

// quote makes a basic string, which names every control character by its
// number.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r) // what is no UTF-8 becomes U+FFFD
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Directories lists what has to exist before containerd starts.
func Directories() []string {
	return slices.Clone([]string{Root, State, NetworkDir, HostsDir, LeaseDir})
}
