package config

import (
	"strings"
	"testing"
)

// service, iface and such put one line of interest into a config that is
// otherwise valid, at a place that the wanted text shows.
func service(s string) string {
	return "machine:\n  services:\n  - id: a\n    command: [/bin/a]\n    " + s + "\n"
}

func iface(s string) string {
	return "machine:\n  network:\n    interfaces:\n    - name: eth0\n      " + s + "\n"
}

func machine(s string) string { return "machine:\n  " + s + "\n" }

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", `f: the file is empty, probably a write that was cut short; a config without settings is "{}"`},
		{"comments only", "# nothing\n", `f: the file is empty, probably a write that was cut short; a config without settings is "{}"`},
		{"null", "---\n~\n", `f: the file is empty, probably a write that was cut short; a config without settings is "{}"`},
		{"zeros", "machine:\n\x00\x00", "f:2:1: a NUL byte, probably from a write that was cut short; write the file again"},
		{"not UTF-8", "machine: \xff", "f:1:10: not UTF-8; save the file as UTF-8"},
		{"too long", strings.Repeat(" ", maxBytes+1), "f: the file has 1048577 bytes; a machine config has at most 1048576"},
		{"too many items", "a: [" + strings.Repeat(",", 30000), "f:1:20003: more than 20000 YAML items up to here; a machine config has a few hundred"},
		{"too deep", strings.Repeat("[", 40), "f:1:33: YAML syntax: exceeded max depth of 32 (while increasing flow level)"},
		{"two documents", "machine: {}\n---\nmachine: {}\n", "f:2:1: a second YAML document begins here; a machine config is one document, so remove the rest"},
		{"syntax", "machine:\n  hostname: [a\n  time: {}\n", "f:3:7: YAML syntax: did not find expected ',' or ']' (while parsing a flow sequence that begins at 2:13)"},
		{"tab", "machine:\n\thostname: a\n", "f:2:1: YAML syntax: found character that cannot start any token (while scanning for the next token)"},
		{"syntax in the second document", "machine: {}\n---\n[", "f:3:2: YAML syntax: did not find expected node content (while parsing a flow node)"},
		{"unknown anchor", "machine: *x\n", "f:1:10: YAML syntax: unknown anchor 'x' referenced"},
		{"list at the top", "[machine]", "f:1:1: want a mapping; got a list"},
		{"word at the top", "machine", `f:1:1: want a mapping; got the string "machine"`},
		{"unknown, near", "machin: {}", `f:1:1: machin: unknown field; did you mean "machine"?`},
		{"unknown, far", "cluster: {}", "f:1:1: cluster: unknown field"},
		{"unknown, odd", "\"a\\nb\": 1", `f:1:1: "a\nb": unknown field`},
		{"hyphen for underscore", service("depends-on: []"), `f:5:5: machine.services[0].depends-on: unknown field; did you mean "depends_on"?`},
		{"duplicate field", machine("hostname: a\n  hostname: b"), "f:3:3: machine.hostname: duplicate field; the first is on line 2"},
		{"mapping as key", "? {a: b}\n: c\n", "f:1:3: want a word as field name; got a mapping"},
		{"merge key", machine("<<: {hostname: a}"), "f:2:3: machine: merge keys (<<) are not supported; write the fields out"},
		{"tag", machine("hostname: !secret a"), `f:2:13: machine.hostname: unsupported YAML tag "!secret"; remove it`},
		{"binary", machine("hostname: !!binary YQ=="), `f:2:13: machine.hostname: unsupported YAML tag "!!binary"; remove it`},
		{"list for string", machine("hostname: [a]"), "f:2:13: machine.hostname: want a string; got a list"},
		{"hostname", machine("hostname: node_1"), `f:2:13: machine.hostname: want letters, digits and hyphens, in labels of 1 to 63 with dots between (RFC 1123); got "node_1"`},
		{"long hostname", machine("hostname: " + strings.Repeat("a.", 40) + "a"), "f:2:13: machine.hostname: want at most 64 characters, the kernel's limit for a hostname; got 81"},

		{"sysctl without key", machine("sysctls: [{value: 1}]"), "f:2:13: machine.sysctls[0].key: missing; this field is required"},
		{"sysctl outside", machine("sysctls: [{key: kernel/../../etc, value: 1}]"), `f:2:19: machine.sysctls[0].key: want a kernel parameter such as net.ipv4.ip_forward; got "kernel/../../etc"`},
		{"sysctl twice", machine("sysctls:\n  - {key: vm.swappiness, value: 1}\n  - {key: vm/swappiness, value: 2}"), `f:4:11: machine.sysctls[1].key: duplicate sysctl "vm/swappiness"; the first is on line 3`},
		{"empty item", machine("sysctls: [~]"), "f:2:13: machine.sysctls[0]: empty list item; remove it or give it a value"},

		{"selector empty", machine("install: {disk: {}}"), "f:2:19: machine.install.disk: a selector without a field matches any disk; give at least one of size, model, serial, bus"},
		{"selector bus", machine("install: {disk: {bus: sata}}"), `f:2:25: machine.install.disk.bus: want one of ata, mmc, nvme, scsi, usb, virtio; got "sata"`},
		{"selector model", machine(`install: {disk: {model: "*"}}`), `f:2:27: machine.install.disk.model: want a text, with * for any part, such as Samsung*; got "*"`},
		{"selector size", machine(`install: {disk: {size: 100GiB}}`), `f:2:26: machine.install.disk.size: want ">= SIZE", "<= SIZE" or both with a comma between, such as ">= 8GiB, <= 64GiB"; got "100GiB"`},
		{"selector sizes", machine(`install: {disk: {size: ">= 8GiB, >= 9GiB"}}`), `f:2:26: machine.install.disk.size: want ">= SIZE", "<= SIZE" or both with a comma between, such as ">= 8GiB, <= 64GiB"; got ">= 8GiB, >= 9GiB"`},
		{"selector of nothing", machine(`install: {disk: {size: ">= 8GiB, <= 4GiB"}}`), `f:2:26: machine.install.disk.size: no disk is ">= 8GiB, <= 4GiB"`},
		{"selector field", machine(`install: {disk: {vendor: x, bus: usb}}`), `f:2:20: machine.install.disk.vendor: unknown field`},

		{"command missing", "machine:\n  services:\n  - id: a\n", "f:3:5: machine.services[0].command: missing; this field is required"},
		{"command empty", "machine: {services: [{id: a, command: []}]}", "f:1:39: machine.services[0].command: want a program and its arguments; got an empty list"},
		{"command relative", "machine: {services: [{id: a, command: [sh, -c]}]}", `f:1:40: machine.services[0].command[0]: want an absolute path such as /usr/bin/containerd; got "sh"`},
		{"command roundabout", "machine: {services: [{id: a, command: [/bin/../a]}]}", `f:1:40: machine.services[0].command[0]: want the path without detours, "/a"; got "/bin/../a"`},
		{"command as string", "machine: {services: [{id: a, command: /bin/a -x}]}", `f:1:39: machine.services[0].command: want a list; got the string "/bin/a -x"`},
		{"id reserved", "machine: {services: [{id: containerd, command: [/a]}]}", `f:1:27: machine.services[0].id: "containerd" is reserved for the runtime that machined runs; choose another id, or set machine.runtime`},
		{"id bad", "machine: {services: [{id: a/b, command: [/a]}]}", `f:1:27: machine.services[0].id: want 1 to 63 letters, digits and any of . _ @ -, the first a letter, a digit or _; got "a/b"`},
		{"id twice", service("critical: true\n  - {id: a, command: [/b]}"), `f:6:10: machine.services[1].id: duplicate service id "a"; the first is on line 3`},
		{"restart", service("restart: on-failure"), `f:5:14: machine.services[0].restart: want one of on_failure, always, never; got "on-failure"; did you mean "on_failure"?`},
		{"grace", service("stop_grace_secs: 10s"), `f:5:22: machine.services[0].stop_grace_secs: want a whole number; got the string "10s"`},
		{"grace negative", service("stop_grace_secs: -1"), `f:5:22: machine.services[0].stop_grace_secs: want a whole number from 0 to 31536000; got "-1"`},
		{"critical", service("critical: yes"), `f:5:15: machine.services[0].critical: want true or false; got the string "yes"`},
		{"env name", service("env: {2A: x}"), "f:5:11: machine.services[0].env.2A: want a variable name of letters, digits and _, not beginning with a digit"},
		{"env list", service("env: [A=b]"), "f:5:10: machine.services[0].env: want a mapping of names to values; got a list"},
		{"user", service("user: 'a b'"), `f:5:11: machine.services[0].user: want a user such as 1000, 1000:1000 or daemon:daemon; got "a b"`},
		{"gate", service("gates: [clock]"), `f:5:13: machine.services[0].gates[0]: want one of time, network; got "clock"`},
		{"probe without kind", service("probe: {period_secs: 3}"), "f:5:12: machine.services[0].probe: want exactly one of http, tcp, exec, grpc; got 0 of them"},
		{"probe with two", service("probe: {tcp: 'a:1', exec: [/a]}"), "f:5:12: machine.services[0].probe: want exactly one of http, tcp, exec, grpc; got 2 of them"},
		{"probe url", service("probe: {http: 'localhost:80'}"), `f:5:19: machine.services[0].probe.http: want a URL such as http://127.0.0.1:10248/healthz; got "localhost:80"`},
		{"probe timeout", service("probe: {tcp: 'a:1', period_secs: 2, timeout_secs: 3}"), "f:5:55: machine.services[0].probe.timeout_secs: want at most the period of 2 seconds; got 3"},
		{"memory unit", service("limits: {memory_max: 64M}"), `f:5:26: machine.services[0].limits.memory_max: want a size such as 256MiB (units KiB, MiB, GiB, TiB); got "64M"`},
		{"memory small", service("limits: {memory_max: 64}"), `f:5:26: machine.services[0].limits.memory_max: want at least 1MiB; got "64"`},
		{"memory high", service("limits: {memory_max: 64MiB, memory_high: 1GiB}"), "f:5:46: machine.services[0].limits.memory_high: want at most memory_max, 64MiB; got 1GiB"},
		{"cpu", service("limits: {cpu_max: 0%}"), `f:5:23: machine.services[0].limits.cpu_max: want a share of one CPU such as 50%, or "QUOTA PERIOD" in microseconds; got "0%"`},

		{"depends on itself", service("depends_on: [a]"), `f:5:18: machine.services[0].depends_on[0]: service "a" depends on itself; remove the entry`},
		{"depends on nothing", service("depends_on: [contanerd]"), `f:5:18: machine.services[0].depends_on[0]: no service has the id "contanerd"; did you mean "containerd"?`},
		{"cycle", service("depends_on: [b]\n  - {id: b, command: [/b], depends_on: [a]}"), "f:6:41: machine.services[1].depends_on[0]: dependency cycle a -> b -> a; remove one of these dependencies"},
		{"runtime disabled", service("depends_on: [containerd]\n  runtime: {disabled: true}"), `f:5:18: machine.services[0].depends_on[0]: service "a" would wait for ever: machine.runtime.disabled is true`},

		{"interface name", "machine: {network: {interfaces: [{name: wlan/0}]}}", `f:1:41: machine.network.interfaces[0].name: want an interface name of 1 to 15 characters such as eth0; got "wlan/0"`},
		{"interface twice", iface("up: true\n    - name: eth0"), `f:6:13: machine.network.interfaces[1].name: duplicate interface "eth0"; the first is on line 4`},
		{"mtu", iface("mtu: 60"), `f:5:12: machine.network.interfaces[0].mtu: want a whole number from 68 to 65536; got "60"`},
		{"mtu with IPv6", iface("mtu: 1000\n      addresses: ['fd00::1/64']"), `f:5:12: machine.network.interfaces[0].mtu: want a whole number from 1280 to 65536; got "1000"`},
		{"address without length", iface("addresses: [10.0.0.1]"), `f:5:19: machine.network.interfaces[0].addresses[0]: want an address with its prefix length such as 192.168.1.10/24; got "10.0.0.1"`},
		{"address twice", iface("addresses: [10.0.0.1/8, 10.0.0.1/24]"), `f:5:31: machine.network.interfaces[0].addresses[1]: duplicate address "10.0.0.1"; the first is on line 5`},
		{"route without gateway", iface("routes: [{to: 10.0.0.0/8}]"), "f:5:16: machine.network.interfaces[0].routes[0].via: missing; this field is required"},
		{"route host bits", iface("routes: [{to: 10.0.0.1/8, via: 10.0.0.2}]"), `f:5:21: machine.network.interfaces[0].routes[0].to: want a network without host bits, 10.0.0.0/8; got "10.0.0.1/8"`},
		{"route family", iface("routes: [{to: '::/0', via: 10.0.0.2}]"), "f:5:34: machine.network.interfaces[0].routes[0].via: want a gateway of the destination's family, ::/0; got 10.0.0.2"},
		{"gateway", iface("routes: [{via: 0.0.0.0}]"), `f:5:22: machine.network.interfaces[0].routes[0].via: want the address of a gateway such as 192.168.1.1; got "0.0.0.0"`},
		{"psk", iface("wifi: {ssid: a, psk: secret}"), "f:5:28: machine.network.interfaces[0].wifi.psk: want a passphrase of 8 to 63 printable ASCII characters or 64 hex digits; got 6 bytes"},
		{"country", iface("wifi: {ssid: a, country: de}"), `f:5:32: machine.network.interfaces[0].wifi.country: want a country of two capital letters (ISO 3166-1) such as DE; got "de"`},
		{"nameserver", machine("network: {nameservers: [localhost]}"), `f:2:27: machine.network.nameservers[0]: want the address of a name server such as 192.168.1.1; got "localhost"`},
		{"search", machine("network: {search: [a b]}"), `f:2:22: machine.network.search[0]: want a domain name such as lan.example; got "a b"`},

		{"disk", machine("install: {disk: sda}"), `f:2:19: machine.install.disk: want a disk such as /dev/mmcblk0; got "sda"`},
		{"disk missing", machine("install: {}"), "f:2:12: machine.install.disk: missing; this field is required"},
		{"time server", machine("time: {servers: ['a:b:c']}"), `f:2:20: machine.time.servers[0]: want a host name or an address, with :port or without; got "a:b:c"`},
		{"socket", machine("runtime: {socket: containerd.sock}"), `f:2:21: machine.runtime.socket: want an absolute path such as /usr/bin/containerd; got "containerd.sock"`},
		{"pod twice", machine("pods: [{name: p, image: a}, {name: p, image: b}]"), `f:2:38: machine.pods[1].name: duplicate pod "p"; the first is on line 2`},
		{"sink", machine("logs: {sinks: [{url: 'http://a:1'}]}"), `f:2:24: machine.logs.sinks[0].url: want tcp|udp|syslog+tcp|syslog+udp://host:port; got "http://a:1"`},
		{"sink format", machine("logs: {sinks: [{url: 'syslog+tcp://a:1', format: json}]}"), "f:2:52: machine.logs.sinks[0].format: a syslog+tcp sink carries rfc5424; for json use tcp:// or udp://"},
		{"watchdog", machine("watchdog: {timeout_secs: 1}"), `f:2:28: machine.watchdog.timeout_secs: want a whole number from 2 to 3600; got "1"`},
		{"upgrade key", machine("upgrade: {keys: [abc]}"), `f:2:20: machine.upgrade.keys[0]: want an Ed25519 public key, 32 bytes in base64; got "abc"`},
		{"upgrade hold", machine("upgrade: {health: {hold_secs: 300}}"), "f:2:21: machine.upgrade.health: want hold_secs below deadline_secs, or no upgrade is ever kept; got 300 and 300"},
		{"upgrade service", machine("upgrade: {health: {services: [web]}}"), `f:2:33: machine.upgrade.health.services[0]: the config has no service "web"`},
		{"upgrade pod", machine("upgrade: {health: {pods: [web]}}"), `f:2:29: machine.upgrade.health.pods[0]: the config has no pod "web"`},
		{"upgrade firmware", machine("upgrade: {firmware: old}"), `f:2:23: machine.upgrade.firmware: want one of auto, tryboot, flip_first; got "old"`},
		{"upgrade version", machine("upgrade: {min_version: 'a b'}"), `f:2:26: machine.upgrade.min_version: want a version such as v1.2.3; got "a b"`},
		{"volume", machine("volumes: {state_size: 1MiB}"), `f:2:25: machine.volumes.state_size: want a whole number of MiB, 16MiB or more; got "1MiB"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := Parse("f", []byte(tt.text))
			if err == nil {
				t.Fatalf("Parse(%q) = %+v; want error %s", tt.text, c, tt.want)
			}
			if got := err.Error(); got != tt.want {
				t.Errorf("Parse(%q): error\n got %s\nwant %s", tt.text, got, tt.want)
			}
		})
	}
}

// Aliases of aliases: a few hundred bytes stand for a billion nodes.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("machine:\n  services:\n  - {id: a, command: &c [/a" + strings.Repeat(", x", 5000) + "]}\n")
	for range 1000 {
		b.WriteString("  - {id: b, command: *c}\n")
	}
	_, _, err := Parse("f", []byte(b.String()))
	const want = "machine.services[20].command: more than 100000 YAML nodes with aliases expanded; use fewer aliases"
	if err == nil || !strings.Contains(err.Error(), "nodes with aliases expanded") {
		t.Errorf("error = %.300v; want %s", err, want)
	}
}
