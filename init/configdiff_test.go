package main

import (
	"slices"
	"testing"
	"time"

	"machined/init/config"
)

// TestAfterReboot goes through what a config may change: what is not acted on at
// once is said, whether it is changed or taken out.
func TestAfterReboot(t *testing.T) {
	const again = ", or with `machinectl service restart containerd`"
	const install = "machine.install: volumes that are mounted, and a disk that was dealt with, stay as they are until then"
	for _, c := range []struct {
		name, before, after string
		want                []string
	}{
		{"nothing", "", "", nil},
		{"what is acted on at once", "",
			"hostname: a, sysctls: [{key: vm.swappiness, value: '1'}], time: {disabled: true}, logs: {sinks: [{url: 'tcp://192.0.2.1:514'}]}, watchdog: {timeout_secs: 9}, " +
				"network: {nameservers: [192.0.2.1], search: [lan], interfaces: [{name: eth0, dhcp6: true, mtu: 1400}]}, " +
				"services: [{id: a, command: [/a], log_bytes: 64KiB}], pods: [{name: p, image: p}], " +
				"upgrade: {auto_rollback: false, min_version: v1.0.0, health: {services: [a], hold_secs: 1}}", nil},
		{"taken out again",
			"hostname: a, time: {disabled: true}, logs: {sinks: [{url: 'tcp://192.0.2.1:514'}]}, watchdog: {timeout_secs: 9}, " +
				"network: {nameservers: [192.0.2.1], search: [lan], interfaces: [{name: eth0, dhcp6: true, mtu: 1400}]}, " +
				"services: [{id: a, command: [/a], log_bytes: 64KiB}], pods: [{name: p, image: p}], " +
				"upgrade: {auto_rollback: false, min_version: v1.0.0, health: {services: [a], hold_secs: 1}}", "", nil},
		{"sysctl taken out", "sysctls: [{key: vm.swappiness, value: '1'}]", "", []string{"machine.sysctls: vm.swappiness keeps its value until then"}},
		{"sysctl changed", "sysctls: [{key: vm.swappiness, value: '1'}]", "sysctls: [{key: vm/swappiness, value: '2'}]", nil},
		{"watchdog off", "", "watchdog: {disabled: true}", nil},
		{"watchdog on", "watchdog: {disabled: true}", "", []string{"machine.watchdog.disabled"}},
		{"firmware", "", "upgrade: {firmware: flip_first}", []string{"machine.upgrade.firmware"}},
		{"firmware taken out", "upgrade: {firmware: tryboot}", "", []string{"machine.upgrade.firmware"}},
		{"another disk", "install: {disk: /dev/sda}", "install: {disk: /dev/sdb}", []string{install}},
		{"no disk", "install: {disk: {serial: s}}", "", []string{install}},
		{"the same disk", "install: {disk: {serial: s}}", "install: {disk: {serial: s}}", nil},
		{"a disk given up for volumes", "install: {disk: /dev/sda}", "install: {disk: /dev/sda, wipe: true}", nil},
		{"a disk given up for the system", "install: {disk: /dev/sda, system: true}", "install: {disk: /dev/sda, system: true, wipe: true}", []string{install}},
		{"log_bytes taken out", "services: [{id: a, command: [/a], log_bytes: 64KiB}]", "services: [{id: a, command: [/b]}]",
			[]string{"machine.services: a keeps its log_bytes until then"}},
		{"router advertisements", "", "network: {interfaces: [{name: eth0, addresses: [192.0.2.2/24]}]}",
			[]string{"machine.network.interfaces: eth0 keeps an address of router advertisements until it expires, or until then"}},
		{"a link that is down", "network: {interfaces: [{name: eth0, dhcp6: true}]}", "network: {interfaces: [{name: eth0, up: false}]}", nil},
		{"socket", "", "runtime: {socket: /run/c.sock}", []string{"machine.runtime.socket"}},
		{"runtime off, with a pod", "pods: [{name: p, image: p}]", "runtime: {disabled: true}", []string{"machine.runtime.disabled: pods that run go on until then"}},
		{"runtime off", "", "runtime: {disabled: true, pod_subnet: 10.1.0.0/16}", nil},
		{"runtime on", "runtime: {disabled: true}", "runtime: {pod_subnet: 10.1.0.0/16}", nil},
		{"pod_subnet", "", "runtime: {pod_subnet: 10.1.0.0/16}", []string{"machine.runtime.pod_subnet"}},
		{"adopt_config", "", "runtime: {adopt_config: true}", []string{"machine.runtime.adopt_config" + again}},
		{"adopt_config of another file", "", "runtime: {adopt_config: true, config_path: /run/c.toml}", nil},
		{"mirror", "runtime: {registries: [{host: docker.io, mirrors: ['http://192.0.2.1']}]}", "", []string{"machine.runtime.registries: their mirrors" + again}},
		{"login", "", "runtime: {registries: [{host: docker.io, username: u, password: p}]}", nil},
		{"reset_on_corruption", "", "runtime: {reset_on_corruption: true}", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := machineOf(t, c.before), machineOf(t, c.after)
			if got := afterReboot(before, after, false); !slices.Equal(got, c.want) {
				t.Errorf("what waits for the next boot is\n%q; want\n%q", got, c.want)
			}
		})
	}
	before, after := machineOf(t, "install: {disk: /dev/sda}"), machineOf(t, "install: {disk: /dev/sda, wipe: true}")
	if got := afterReboot(before, after, true); !slices.Equal(got, []string{install}) {
		t.Errorf("of a netbooted node with a disk that is given up now, %q waits for the next boot; want the installation", got)
	}
	before, after = machineOf(t, ""), machineOf(t, "volumes: {state_size: 256MiB}")
	if got := withoutEffect(before, after); len(got) != 1 || len(withoutEffect(after, after)) != 0 {
		t.Errorf("of other sizes it is said %q; want one line", got)
	}
}

func machineOf(t *testing.T, fields string) config.Machine {
	t.Helper()
	c, _, err := config.Parse("config", []byte("machine: {"+fields+"}"))
	mustDo(t, err)
	return c.Machine
}

// TestWatchdogTimeoutTakenOut: it stayed what the config before had.
func TestWatchdogTimeoutTakenOut(t *testing.T) {
	r := newRig(t)
	r.watchdog.Max = 12
	r.node.watchdog = r.watchdog
	for _, step := range []struct {
		timeout time.Duration
		took    int
		ok      bool
	}{{9 * time.Second, 9, true}, {0, 12, true}, {30 * time.Second, 12, false}} {
		r.loaded.Config.Machine.Watchdog.Timeout = step.timeout
		if err := r.configureWatchdog(); (err == nil) != step.ok || r.boot.WatchdogSecs != step.took {
			t.Errorf("with a time-out of %s the watchdog has %d s, %v; want %d s", step.timeout, r.boot.WatchdogSecs, err, step.took)
		}
	}
}
