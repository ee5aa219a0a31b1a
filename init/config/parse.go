package config

// Parse reads the machine config in data; name is the file's name for messages.
//
// The error is Errors and holds every fault of the file. Warnings are returned
// with a valid config and with an invalid one.
func Parse(name string, data []byte) (*Config, Warnings, error) {
	root, err := document(name, data)
	if err != nil {
		return nil, nil, err
	}
	d := &decoder{file: name}
	c := &Config{}
	top := d.object(value{node: root}, "machine")
	c.Machine = d.machine(top.get("machine"))
	sortByPlace(d.warnings)
	if len(d.errors) > 0 {
		sortByPlace(d.errors)
		return nil, d.warnings, d.errors
	}
	return c, d.warnings, nil
}

// Default returns the config that an empty mapping stands for.
func Default() *Config {
	d := &decoder{}
	return &Config{Machine: d.machine(value{path: "machine"})}
}

func (d *decoder) machine(v value) Machine {
	o := d.object(v, "hostname", "sysctls", "install", "services", "network", "time",
		"runtime", "pods", "logs", "watchdog", "upgrade", "volumes")
	m := Machine{
		Hostname: scalar(d, o.get("hostname"), "", parseHostname),
		Sysctls:  d.sysctls(o.get("sysctls")),
		Install:  d.install(o.get("install")),
		Network:  d.network(o.get("network")),
		Time:     d.time(o.get("time")),
		Runtime:  d.runtime(o.get("runtime")),
		Pods:     d.pods(o.get("pods")),
		Logs:     d.logs(o.get("logs")),
		Watchdog: d.watchdog(o.get("watchdog")),
		Volumes:  d.volumes(o.get("volumes")),
	}
	m.Services = d.services(o.get("services"), m.Runtime.Disabled)
	m.Upgrade = d.upgrade(o.get("upgrade"), m)
	return m
}

func (d *decoder) sysctls(v value) []Sysctl {
	var out []Sysctl
	seen := names{}
	for _, item := range d.list(v) {
		o := d.object(item, "key", "value")
		key := d.need(o, "key")
		s := Sysctl{Key: scalar(d, key, "", parseSysctlKey)}
		s.Value = scalar(d, d.need(o, "value"), "", parseSysctlValue)
		// net.ipv4.ip_forward and net/ipv4/ip_forward are one parameter.
		if s.Key != "" && seen.add(d, key, "sysctl", s.Path()) {
			out = append(out, s)
		}
	}
	return out
}

func (d *decoder) time(v value) Time {
	o := d.object(v, "servers", "disabled")
	return Time{
		Servers:  scalars(d, o.get("servers"), parseServer),
		Disabled: d.boolean(o.get("disabled"), false),
	}
}

// names finds repeated names; it maps each to the line of its first place.
type names map[string]int

// add returns false, after an error at v, when name was there before.
func (n names) add(d *decoder, v value, what, name string) bool {
	node := target(v.node)
	if line, ok := n[name]; ok {
		d.errorf(value{node: node, path: v.path}, "duplicate %s %s; the first is on line %d", what, quote(name), line)
		return false
	}
	n[name] = node.Line
	return true
}
