package config

import (
	"strings"
	"testing"
)

// TestPodFaults has a fault a case, and the word that its error is known by.
func TestPodFaults(t *testing.T) {
	for text, want := range map[string]string{
		`[{name: a}]`:  "image: missing",
		`[{image: a}]`: "name: missing",
		`[{name: a, image: b}, {name: a, image: b}]`:                                                                       `duplicate pod "a"`,
		`[{name: a, image: b, restart: sometimes}]`:                                                                        "restart",
		`[{name: a, image: b, ports: [{host: 0, container: 1}]}]`:                                                          "from 1 to 65535",
		`[{name: a, image: b, ports: [{host: 80, container: 80, protocol: sctp}]}]`:                                        "want tcp or udp",
		`[{name: a, image: b, ports: [{host: 80, container: 80}], host_network: true}]`:                                    "remove ports or host_network",
		`[{name: a, image: b, ports: [{host: 80, container: 1}, {host: 80, container: 2}]}]`:                               `duplicate host port "TCP 80"`,
		`[{name: a, image: b, ports: [{host: 80, container: 1}]}, {name: c, image: b, ports: [{host: 80, container: 2}]}]`: `duplicate host port "TCP 80"`,
		`[{name: a, image: b, ports: [{host: 50000, container: 80}]}]`:                                                     "is the API's",
		`[{name: a, image: b, mounts: [{source: /system/state/pki, target: /a}]}]`:                                         "want a directory of EPHEMERAL",
		`[{name: a, image: b, mounts: [{source: /var, target: /a}]}]`:                                                      "want a directory of EPHEMERAL",
		`[{name: a, image: b, mounts: [{source: /var/lib, target: /a}]}]`:                                                  "want a directory of EPHEMERAL",
		`[{name: a, image: b, mounts: [{source: /var/lib/containerd/x, target: /a}]}]`:                                     "none of the runtime's",
		`[{name: a, image: b, mounts: [{source: /var/x/../lib/containerd, target: /a}]}]`:                                  "mounts[0].source",
		`[{name: a, image: b, mounts: [{source: /var/x, target: /a}, {source: /var/y, target: /a}]}]`:                      `duplicate target "/a"`,
		`[{name: a, image: b, user: daemon}]`:                                                                              "want uid or uid:gid",
		`[{name: a, image: b, capabilities: [NET_ADMIN]}]`:                                                                 "want the name of a capability",
		`[{name: a, image: b, containers: [{name: c, image: d}]}]`:                                                         "in each of them",
		`[{name: a, containers: []}]`:                                                                                      "at least one container",
		`[{name: a, containers: [{image: d}]}]`:                                                                            "name: missing",
		`[{name: a, containers: [{name: c, image: d}, {name: c, image: d}]}]`:                                              `duplicate container "c"`,
		`[{name: a, image: b, limits: {memory_max: 1KiB}}]`:                                                                "at least 1MiB",
	} {
		_, _, err := Parse("f", []byte("machine:\n  pods: "+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("pods %s: %v; want an error with %q", text, err, want)
		}
	}
}

func TestRuntimeFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{pod_subnet: 10.88.0.1/16}`:                             "want an IPv4 network",
		`{pod_subnet: 10.88.0.0/30}`:                             "want an IPv4 network",
		`{pod_subnet: "fd00::/64"}`:                              "want an IPv4 network",
		`{registries: [{mirrors: ["https://a"]}]}`:               "host: missing",
		`{registries: [{host: "https://a"}]}`:                    "want a host or host:port",
		`{registries: [{host: a, mirrors: [a]}]}`:                "want a URL",
		`{registries: [{host: a, mirrors: ["https://a/?x=1"]}]}`: "want a URL without query",
		`{registries: [{host: a, username: u}]}`:                 "username and password, or neither",
		`{registries: [{host: a, password: "secret"}]}`:          "username and password, or neither",
		`{registries: [{host: a}, {host: a}]}`:                   `duplicate registry "a"`,
	} {
		_, _, err := Parse("f", []byte("machine:\n  runtime: "+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("runtime %s: %v; want an error with %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestPodOfOldConfig(t *testing.T) {
	c, _, err := Parse("f", []byte("machine: {pods: [{name: a, image: b, command: [x], args: [y], host_network: true}]}"))
	if err != nil {
		t.Fatal(err)
	}
	p := c.Machine.Pods[0]
	if len(p.Containers) != 1 || p.Containers[0].Name != "a" || p.Containers[0].Image != "b" || !p.HostNetwork || p.Restart != RestartAlways {
		t.Errorf("the pod is %+v; want one container a of image b on the host's network, started always", p)
	}
}
