package conformance

import (
	"strings"
	"testing"

	"machined/hal"
)

// HostRig is a host whose name and sysctls the suite may change.
type HostRig struct {
	Host hal.Host
	// Key is a sysctl that takes Good, and refuses each of Bad.
	Key, Good string
	Bad       []string
	// Named is a sysctl whose value has to be one of a list of names, which
	// Stranger is not among.
	Named, Stranger string
	// Directory is a part of a key that other keys begin with.
	Directory string
}

// Host checks a driver.
func Host(t *testing.T, newRig func(t *testing.T) HostRig) {
	t.Run("host name", func(t *testing.T) { hostName(t, newRig(t).Host) })
	t.Run("sysctl", func(t *testing.T) { sysctlValues(t, newRig(t)) })
	t.Run("unknown sysctl", func(t *testing.T) {
		r := newRig(t)
		for _, key := range []string{"net.no_such_thing", "no/such/thing", "", "..", "net/../../cmdline", r.Directory} {
			_, err := r.Host.Sysctl(key)
			expect(t, "Sysctl("+key+")", err, hal.ErrNotFound)
			expect(t, "SetSysctl("+key+")", r.Host.SetSysctl(key, "1"), hal.ErrNotFound)
		}
	})
}

func hostName(t *testing.T, h hal.Host) {
	must(t, "SetHostname(kiosk-7)", h.SetHostname("kiosk-7"))
	if name, err := h.Hostname(); name != "kiosk-7" || err != nil {
		t.Errorf("Hostname() = %q, %v; want kiosk-7", name, err)
	}
	expect(t, "SetHostname(65 characters)", h.SetHostname(strings.Repeat("a", 65)), hal.ErrInvalid)
	if name, _ := h.Hostname(); name != "kiosk-7" {
		t.Errorf("Hostname() after a refused name = %q; want kiosk-7", name)
	}
}

func sysctlValues(t *testing.T, r HostRig) {
	must(t, "SetSysctl("+r.Key+")", r.Host.SetSysctl(r.Key, r.Good))
	for _, key := range []string{r.Key, strings.ReplaceAll(r.Key, ".", "/")} {
		if v, err := r.Host.Sysctl(key); v != r.Good || err != nil {
			t.Errorf("Sysctl(%s) = %q, %v; want %q without a newline", key, v, err, r.Good)
		}
	}
	for _, bad := range r.Bad {
		expect(t, "SetSysctl("+r.Key+", "+bad+")", r.Host.SetSysctl(r.Key, bad), hal.ErrInvalid)
	}
	// The kernel says ENOENT here, which is not about the key.
	expect(t, "SetSysctl("+r.Named+", "+r.Stranger+")", r.Host.SetSysctl(r.Named, r.Stranger), hal.ErrInvalid)
	if v, _ := r.Host.Sysctl(r.Key); v != r.Good {
		t.Errorf("Sysctl(%s) after refused values = %q; want %q", r.Key, v, r.Good)
	}
}
