package config

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// Pod is a pod that runs on the node. Its containers share a network and start
// together.
type Pod struct {
	Name        string
	HostNetwork bool
	Ports       []PodPort
	// Restart is RestartAlways unless the config says otherwise.
	Restart    RestartPolicy
	StopGrace  time.Duration
	Containers []PodContainer
}

// PodPort forwards a port of the node to the pod.
type PodPort struct {
	Host, Container uint16
	UDP             bool
}

// PodContainer is one container of a pod.
type PodContainer struct {
	Name       string
	Image      string
	Command    []string
	Args       []string
	Env        []EnvVar
	WorkingDir string
	// User is numeric "uid[:gid]", "" for that of the image.
	User         string
	Mounts       []PodMount
	Limits       Limits
	Probe        *Probe
	Capabilities []string
	Privileged   bool
	ReadOnlyRoot bool
}

// PodMount makes a directory of EPHEMERAL appear in a container. It is made if
// it is not there.
type PodMount struct {
	Source, Target string // absolute paths
	ReadOnly       bool
}

// ephemeral is where EPHEMERAL is mounted.
const ephemeral = "/var"

// containerFields are those of a pod of one container, too.
func containerFields() []string {
	return []string{
		"image", "command", "args", "env", "working_dir", "user", "mounts", "limits", "probe", "capabilities", "privileged", "read_only_root",
	}
}

func (d *decoder) pods(v value) []Pod {
	var out []Pod
	seen, ports := names{}, names{}
	for _, item := range d.list(v) {
		o := d.object(item, append(containerFields(), "name", "host_network", "ports", "restart", "stop_grace_secs", "containers")...)
		name := d.need(o, "name")
		p := Pod{
			Name: scalar(d, name, "", parseID), HostNetwork: d.boolean(o.get("host_network"), false),
			Restart:   scalar(d, o.get("restart"), RestartAlways, oneOf[RestartPolicy](restartNames())),
			StopGrace: d.seconds(o.get("stop_grace_secs"), 10*time.Second, 0),
			Ports:     d.ports(o, ports),
		}
		if p.Name != "" {
			seen.add(d, name, "pod", p.Name)
		}
		p.Containers = d.containers(o, p.Name)
		out = append(out, p)
	}
	return out
}

// containers reads the list of containers, or the pod's own fields as one.
func (d *decoder) containers(pod object, name string) []PodContainer {
	list := pod.get("containers")
	if list.absent() {
		c := d.container(pod)
		c.Name = name
		return []PodContainer{c}
	}
	for _, field := range containerFields() {
		if v := pod.get(field); !v.absent() {
			d.errorf(v, "a pod with containers has this field in each of them")
		}
	}
	var out []PodContainer
	seen := names{}
	items := d.list(list)
	if len(items) == 0 {
		d.errorf(list, "want at least one container")
	}
	for _, item := range items {
		o := d.object(item, append(containerFields(), "name")...)
		id := d.need(o, "name")
		c := d.container(o)
		c.Name = scalar(d, id, "", parseID)
		if c.Name != "" {
			seen.add(d, id, "container", c.Name)
		}
		out = append(out, c)
	}
	return out
}

func (d *decoder) container(o object) PodContainer {
	return PodContainer{
		Image:        scalar(d, d.need(o, "image"), "", parseImage),
		Command:      scalars(d, o.get("command"), parseArgument),
		Args:         scalars(d, o.get("args"), parseArgument),
		Env:          d.env(o.get("env")),
		WorkingDir:   scalar(d, o.get("working_dir"), "", parsePath),
		User:         scalar(d, o.get("user"), "", parseNumericUser),
		Mounts:       d.mounts(o.get("mounts")),
		Limits:       d.limits(o.get("limits")),
		Probe:        d.probe(o.get("probe")),
		Capabilities: scalars(d, o.get("capabilities"), parseCapability),
		Privileged:   d.boolean(o.get("privileged"), false),
		ReadOnlyRoot: d.boolean(o.get("read_only_root"), false),
	}
}

func parseNumericUser(s string) (string, error) {
	user, group, ok := strings.Cut(s, ":")
	if !only(user, digits) || !isAccount(user) || ok && (!only(group, digits) || !isAccount(group)) {
		return "", fmt.Errorf("want uid or uid:gid such as 1000:1000; got %s", quote(s))
	}
	return s, nil
}

// APIPort is the TCP port of the node's API (api.Port), which no pod may have.
const APIPort = 50000

func (d *decoder) ports(pod object, seen names) []PodPort {
	list := pod.get("ports")
	var out []PodPort
	for _, item := range d.list(list) {
		o := d.object(item, "host", "container", "protocol")
		host := d.need(o, "host")
		p := PodPort{
			Host:      uint16(d.integer(host, 0, 1, 65535)),
			Container: uint16(d.integer(d.need(o, "container"), 0, 1, 65535)),
			UDP:       scalar(d, o.get("protocol"), "tcp", parseProtocol) == "udp",
		}
		if p.Host != 0 {
			protocol := "TCP"
			if p.UDP {
				protocol = "UDP"
			}
			if p.Host == APIPort && !p.UDP {
				d.errorf(host, "port %d is the API's: the pod would take it from the node, which could not be reached any more; use another one", APIPort)
			}
			seen.add(d, host, "host port", fmt.Sprintf("%s %d", protocol, p.Host))
		}
		out = append(out, p)
	}
	if len(out) > 0 && d.boolean(pod.get("host_network"), false) {
		d.errorf(list, "a pod on the host's network has its ports there already; remove ports or host_network")
	}
	return out
}

func parseProtocol(s string) (string, error) {
	if s != "tcp" && s != "udp" {
		return "", fmt.Errorf("want tcp or udp; got %s", quote(s))
	}
	return s, nil
}

func (d *decoder) mounts(v value) []PodMount {
	var out []PodMount
	seen := names{}
	for _, item := range d.list(v) {
		o := d.object(item, "source", "target", "read_only")
		at := d.need(o, "target")
		m := PodMount{
			Source: scalar(d, d.need(o, "source"), "", parseMountSource), Target: scalar(d, at, "", parsePath),
			ReadOnly: d.boolean(o.get("read_only"), false),
		}
		if m.Target != "" {
			seen.add(d, at, "target", m.Target)
		}
		out = append(out, m)
	}
	return out
}

// parseMountSource keeps containers out of the node's own files and those of
// the runtime.
func parseMountSource(s string) (string, error) {
	if _, err := parsePath(s); err != nil {
		return "", err
	}
	clean := path.Clean(s)
	own := func(dir string) bool { return clean == dir || strings.HasPrefix(clean, dir+"/") }
	if clean != s || !strings.HasPrefix(clean, ephemeral+"/") || clean == ephemeral+"/lib" || own(ephemeral+"/lib/containerd") ||
		own(ephemeral+"/lib/machined") || own(ephemeral+"/lib/cni") {
		return "", fmt.Errorf("want a directory of EPHEMERAL such as /var/data/web, and none of the runtime's; got %s", quote(s))
	}
	return s, nil
}
