package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// aYear bounds times in seconds; more is a slip, and far more would overflow.
const aYear = 365 * 24 * 60 * 60

// seconds reads a whole number of seconds.
func (d *decoder) seconds(v value, absent time.Duration, lowest int64) time.Duration {
	return time.Duration(d.integer(v, int64(absent/time.Second), lowest, aYear)) * time.Second
}

func (d *decoder) services(v value, runtimeDisabled bool) []Service {
	g := graph{d: d, runtimeDisabled: runtimeDisabled}
	seen := names{}
	var out []Service
	for _, item := range d.list(v) {
		o := d.object(item, "id", "command", "depends_on", "restart", "stop_grace_secs", "env",
			"user", "working_dir", "probe", "limits", "gates", "volumes", "capabilities", "no_new_privs", "log_bytes", "critical")
		id := d.need(o, "id")
		dependsOn := d.list(o.get("depends_on"))
		s := d.service(o, id, dependsOn)
		out = append(out, s)
		switch {
		case s.ID == ContainerdID:
			d.errorf(value{node: target(id.node), path: id.path},
				"%q is reserved for the runtime that machined runs; choose another id, or set machine.runtime", ContainerdID)
		case s.ID != "" && seen.add(d, id, "service id", s.ID):
			g.add(s.ID, dependsOn)
		}
	}
	g.check()
	return out
}

func (d *decoder) service(o object, id value, dependsOn []value) Service {
	return Service{
		ID:         scalar(d, id, "", parseID),
		Command:    d.command(d.need(o, "command")),
		DependsOn:  parseItems(d, dependsOn, parseID),
		Restart:    scalar(d, o.get("restart"), RestartOnFailure, oneOf[RestartPolicy](restartNames())),
		StopGrace:  d.seconds(o.get("stop_grace_secs"), 10*time.Second, 0),
		Env:        d.env(o.get("env")),
		User:       scalar(d, o.get("user"), "", parseUser),
		WorkingDir: scalar(d, o.get("working_dir"), "", parseDirectory),
		Probe:      d.probe(o.get("probe")),
		Limits:     d.limits(o.get("limits")),
		Gates:      scalars(d, o.get("gates"), oneOf[Gate](gateNames())),
		Volumes:    scalars(d, o.get("volumes"), parseVolume),
		Critical:   d.boolean(o.get("critical"), false),

		Capabilities: d.capabilities(o.get("capabilities")),
		NoNewPrivs:   d.boolean(o.get("no_new_privs"), true),
		LogBytes:     scalar(d, o.get("log_bytes"), 0, parseLogBytes),
	}
}

// command reads an argument vector. There is no PATH to search and no shell, so
// that the program is named by its absolute path.
func (d *decoder) command(v value) []string {
	before := len(d.errors)
	items := d.list(v)
	if !v.absent() && len(items) == 0 && len(d.errors) == before {
		d.errorf(v, "want a program and its arguments; got an empty list")
	}
	var out []string
	for i, item := range items {
		parse := parseArgument
		if i == 0 {
			parse = parsePath
		}
		out = append(out, scalar(d, item, "", parse))
	}
	return out
}

func (d *decoder) env(v value) []EnvVar {
	if !d.enter(&v) {
		return nil
	}
	if v.node.Kind != yaml.MappingNode {
		d.errorf(v, "want a mapping of names to values; got %s", describe(v.node))
		return nil
	}
	var out []EnvVar
	for key, item := range d.pairs(v) {
		name := key.node.Value
		if !only(name, alphanum+"_") || strings.Contains(digits, name[:1]) {
			d.errorf(key, "want a variable name of letters, digits and _, not beginning with a digit")
			continue
		}
		out = append(out, EnvVar{Name: name, Value: scalar(d, item, "", parseArgument)})
	}
	return out
}

// parseUser accepts name, uid, and either with :group or :gid.
func parseUser(s string) (string, error) {
	user, group, ok := strings.Cut(s, ":")
	if !isAccount(user) || (ok && !isAccount(group)) {
		return "", fmt.Errorf("want a user such as 1000, 1000:1000 or daemon:daemon; got %s", quote(s))
	}
	return s, nil
}

func isAccount(s string) bool {
	if only(s, digits) {
		// The highest 32-bit id means "no change" to setresuid(2).
		n, err := strconv.ParseUint(s, 10, 32)
		return err == nil && n != 1<<32-1
	}
	return len(s) <= 32 && only(s, alphanum+"_-") && strings.Contains(letters+"_", s[:1])
}

func (d *decoder) probe(v value) *Probe {
	kinds := probeNames()
	o := d.object(v, append(kinds, "period_secs", "timeout_secs", "threshold")...)
	if !o.ok {
		return nil
	}
	p := &Probe{
		Period:    d.seconds(o.get("period_secs"), 10*time.Second, 1),
		Threshold: int(d.integer(o.get("threshold"), 3, 1, 1000)),
	}
	timeout := o.get("timeout_secs")
	p.Timeout = d.seconds(timeout, min(5*time.Second, p.Period), 1)
	if p.Timeout > p.Period {
		timeout.node = target(timeout.node)
		d.errorf(timeout, "want at most the period of %d seconds; got %d", p.Period/time.Second, p.Timeout/time.Second)
	}
	found := 0
	for i, kind := range kinds {
		if q := o.get(kind); !q.absent() {
			found++
			p.Kind = ProbeKind(i)
			d.probeTarget(p, q)
		}
	}
	if found != 1 {
		d.errorf(o.value, "want exactly one of %s; got %d of them", strings.Join(kinds, ", "), found)
	}
	return p
}

func (d *decoder) probeTarget(p *Probe, v value) {
	switch p.Kind {
	case ProbeHTTP:
		p.Target = scalar(d, v, "", parseProbeURL)
	case ProbeTCP:
		p.Target = scalar(d, v, "", func(s string) (string, error) { return s, parseHostPort(s) })
	case ProbeExec:
		p.Exec = d.command(v)
	case ProbeGRPC:
		p.Target = scalar(d, v, "", parseGRPCTarget)
	}
}

func parseProbeURL(s string) (string, error) {
	rest, ok := strings.CutPrefix(s, "http://")
	if !ok {
		rest, ok = strings.CutPrefix(s, "https://")
	}
	host, _, _ := strings.Cut(rest, "/")
	if !ok || (!isHost(host) && parseHostPort(host) != nil) || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("want a URL such as http://127.0.0.1:10248/healthz; got %s", quote(s))
	}
	return s, nil
}

func parseGRPCTarget(s string) (string, error) {
	if socket, ok := strings.CutPrefix(s, "unix://"); ok {
		_, err := parseSocket(socket)
		return s, err
	}
	if parseHostPort(s) != nil {
		return "", fmt.Errorf("want host:port or unix:///path; got %s", quote(s))
	}
	return s, nil
}

func (d *decoder) limits(v value) Limits {
	o := d.object(v, "memory_max", "memory_high", "cpu_weight", "cpu_max", "pids_max", "io_weight")
	l := Limits{
		MemoryMax:  scalar(d, o.get("memory_max"), 0, parseMemory),
		MemoryHigh: scalar(d, o.get("memory_high"), 0, parseMemory),
		CPUWeight:  int(d.integer(o.get("cpu_weight"), 0, 1, 10000)),
		CPUMax:     scalar(d, o.get("cpu_max"), CPUMax{}, parseCPUMax),
		PIDsMax:    int(d.integer(o.get("pids_max"), 0, 1, 4194304)),
		IOWeight:   int(d.integer(o.get("io_weight"), 0, 1, 10000)),
	}
	if l.MemoryMax > 0 && l.MemoryHigh > l.MemoryMax {
		high := o.get("memory_high")
		high.node = target(high.node)
		d.errorf(high, "want at most memory_max, %v; got %v", l.MemoryMax, l.MemoryHigh)
	}
	return l
}

// parseMemory refuses limits in which no process can start.
func parseMemory(s string) (ByteSize, error) {
	size, err := parseSize(s)
	if err == nil && size < 1<<20 {
		return 0, fmt.Errorf("want at least 1MiB; got %s", quote(s))
	}
	return size, err
}

// parseCPUMax accepts a share of one CPU ("50%", "150%") or the kernel's
// "QUOTA PERIOD" in microseconds.
func parseCPUMax(s string) (CPUMax, error) {
	const period = 100 * time.Millisecond
	if percent, ok := strings.CutSuffix(s, "%"); ok {
		if n, err := strconv.ParseUint(percent, 10, 32); err == nil && n >= 1 && n <= 100_000 {
			return CPUMax{Quota: period / 100 * time.Duration(n), Period: period}, nil
		}
	} else if quota, per, ok := strings.Cut(s, " "); ok {
		q, err := strconv.ParseUint(quota, 10, 32)
		p, err2 := strconv.ParseUint(per, 10, 32)
		// The bounds are the kernel's: a quota and a period of at least 1 ms,
		// a period of at most 1 s.
		if err == nil && err2 == nil && q >= 1000 && p >= 1000 && p <= 1_000_000 {
			return CPUMax{Quota: time.Duration(q) * time.Microsecond, Period: time.Duration(p) * time.Microsecond}, nil
		}
	}
	return CPUMax{}, fmt.Errorf(`want a share of one CPU such as 50%%, or "QUOTA PERIOD" in microseconds; got %s`, quote(s))
}
