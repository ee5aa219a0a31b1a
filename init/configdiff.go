package main

import (
	"reflect"
	"slices"

	"machined/init/config"
)

// afterReboot says what of a config takes effect with the next boot alone. What is
// not named here is acted on at once, by useConfig and the controllers. A netbooted
// node deals with the disk of the config as one that installs its system.
func afterReboot(before, after config.Machine, netbooted bool) []string {
	var out []string
	say := func(waits bool, what string) {
		if waits {
			out = append(out, what)
		}
	}
	say(before.Watchdog.Disabled && !after.Watchdog.Disabled, "machine.watchdog.disabled")
	say(before.Upgrade.Firmware != after.Upgrade.Firmware, "machine.upgrade.firmware")
	say(otherInstall(before.Install, after.Install, netbooted), "machine.install: volumes that are mounted, and a disk that was dealt with, stay as they are until then")
	sayRuntime(before, after, say)
	for _, s := range before.Sysctls {
		stays := !slices.ContainsFunc(after.Sysctls, func(other config.Sysctl) bool { return other.Path() == s.Path() })
		say(stays, "machine.sysctls: "+s.Key+" keeps its value until then")
	}
	for _, s := range after.Services {
		i := slices.IndexFunc(before.Services, func(other config.Service) bool { return other.ID == s.ID })
		say(i >= 0 && before.Services[i].LogBytes != 0 && s.LogBytes == 0, "machine.services: "+s.ID+" keeps its log_bytes until then")
	}
	for _, l := range after.Network.Interfaces {
		i := slices.IndexFunc(before.Network.Interfaces, func(other config.Interface) bool { return other.Name == l.Name })
		// A link that is not named heeds router advertisements.
		say(l.Up && !l.DHCP6 && (i < 0 || before.Network.Interfaces[i].DHCP6), "machine.network.interfaces: "+l.Name+" keeps an address of router advertisements until it expires, or until then")
	}
	return out
}

// otherInstall reports whether a config wants another disk, or the same treated in
// another way than it was.
func otherInstall(before, after *config.Install, netbooted bool) bool {
	var a, b config.Install
	if before != nil {
		a = *before
	}
	if after != nil {
		b = *after
	}
	if !netbooted && !(a.System && b.System) {
		a.Wipe, b.Wipe = false, false // the volumes are tried anew with it
	}
	return !reflect.DeepEqual(a, b)
}

// sayRuntime is the part of afterReboot on containers. containerd reads its files
// when it starts, and its pods outlive it.
func sayRuntime(before, after config.Machine, say func(bool, string)) {
	a, b := before.Runtime, after.Runtime
	say(a.Socket != b.Socket, "machine.runtime.socket")
	say(!a.Disabled && b.Disabled && len(before.Pods) > 0, "machine.runtime.disabled: pods that run go on until then")
	if a.Disabled || b.Disabled {
		return
	}
	say(a.PodSubnet != b.PodSubnet, "machine.runtime.pod_subnet")
	if a.Binary != b.Binary || a.ConfigPath != b.ConfigPath {
		return // it is started again for that
	}
	const again = ", or with `machinectl service restart " + config.ContainerdID + "`"
	say(a.AdoptConfig != b.AdoptConfig, "machine.runtime.adopt_config"+again)
	say(!reflect.DeepEqual(mirrors(a), mirrors(b)), "machine.runtime.registries: their mirrors"+again)
}

// mirrors are those of the registries that have any.
func mirrors(r config.Runtime) map[string][]string {
	out := make(map[string][]string)
	for _, registry := range r.Registries {
		if len(registry.Mirrors) > 0 {
			out[registry.Host] = registry.Mirrors
		}
	}
	return out
}

// withoutEffect warns of what a config changes and nothing follows.
func withoutEffect(before, after config.Machine) []string {
	if before.Volumes == after.Volumes {
		return nil
	}
	return []string{"machine.volumes: volumes that are there keep their size"}
}
