package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"machined/api"
	"machined/init/config"
	"machined/init/upgrade"
	"machined/reconcile/resource"
)

// apply applies a config while the loop goes on.
func (r *rig) apply(t *testing.T, text string, dryRun bool) (api.Applied, error) {
	t.Helper()
	type answer struct {
		applied api.Applied
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		a, err := r.ApplyConfig("laptop", []byte(text), dryRun)
		done <- answer{a, err}
	}()
	for {
		select {
		case a := <-done:
			return a.applied, a.err
		case <-r.kicks:
			r.followConfig()
		}
	}
}

// TestApplyConfig is the story of a config that is applied, of a bad one, and of
// what a boot makes of a damaged one.
func TestApplyConfig(t *testing.T) {
	r := newRig(t)
	mustDo(t, r.loadConfig())
	source := func() string {
		c, _, _ := r.store.MachineConfigs.Get(resource.MachineConfig{}.Key())
		return c.Source
	}
	a, err := r.apply(t, "machine: {hostname: one, sysctls: [{key: vm.swappiness, value: '1'}]}\n", true)
	if err != nil || a.Unchanged || source() != "built-in default" {
		t.Errorf("a dry run = %+v, %v, and the config is that of %s; want nothing done", a, err, source())
	}
	for i := range keptConfigs + 3 {
		text := fmt.Sprintf("machine: {hostname: host-%d, sysctls: [{key: vm.swappiness, value: '%d'}]}\n", i, i)
		if a, err = r.apply(t, text, false); err != nil {
			t.Fatal(err)
		}
		if source() != "/system/state/config.yaml" || r.hostname() != fmt.Sprint("host-", i) {
			t.Fatalf("the node is %s, by the config of %s; want host-%d", r.hostname(), source(), i)
		}
	}
	if a, err = r.apply(t, "machine: {hostname: host-6, sysctls: [{key: vm.swappiness, value: '6'}]}\n", false); err != nil || !a.Unchanged {
		t.Errorf("the same config = %+v, %v; want it unchanged", a, err)
	}
	if a, err = r.apply(t, "machine: {hostname: host-7}\n", true); err != nil || !slices.Equal(a.AfterReboot, []string{"machine.sysctls: vm.swappiness keeps its value until then"}) {
		t.Errorf("without the sysctl = %+v, %v; want it told that it stays", a, err)
	}
	_, err = r.apply(t, "machine: {hostnam: a, time: {servers: 1}}\n", false)
	var f *api.Failure
	if !errors.As(err, &f) || f.Cause != api.BadInput || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "hostnam") {
		t.Errorf("a bad config = %v; want both of its errors", err)
	}
	// What does not load is passed over for the one before it.
	mustDo(t, os.WriteFile(r.at("/system/state/config.yaml"), []byte("machine: {hostname: ["), 0o600))
	mustDo(t, r.loadConfig())
	if r.hostname() != "host-5" || source() != "/system/state/config.1.yaml" {
		t.Errorf("the node is %s, by the config of %s; want host-5", r.hostname(), source())
	}
	if _, err := os.Stat(r.at(fmt.Sprintf("/system/state/config.%d.yaml", keptConfigs+1))); err == nil {
		t.Error("more configs are kept than should be")
	}
}

// TestApplyWithoutState keeps nothing where there is nowhere to keep it.
func TestApplyWithoutState(t *testing.T) {
	r := newRig(t)
	mustDo(t, r.loadConfig())
	mustDo(t, os.Remove(r.at(stateMarker)))
	var f *api.Failure
	if _, err := r.apply(t, "machine: {hostname: one}\n", false); !errors.As(err, &f) || f.Cause != api.NotNow {
		t.Errorf("ApplyConfig without STATE = %v; want that it is not there", err)
	}
}

// TestReset takes what it is to take, and finishes what was cut.
func TestReset(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("identity kept ", keep), func(t *testing.T) {
			r := newRig(t)
			for path, text := range map[string]string{"/pki/ca.crt": "ca", "/config.yaml": "machine: {}", "/dhcp/lease": "lease"} {
				mustDo(t, os.MkdirAll(r.at(stateDir+path[:strings.LastIndex(path, "/")]), 0o755))
				mustDo(t, os.WriteFile(r.at(stateDir+path), []byte(text), 0o600))
			}
			mustDo(t, r.startControllers())
			for range 5 {
				r.pass()
				r.clock.Advance(int64(time.Second))
			}
			mustDo(t, r.Reset("laptop", keep))
			if _, err := os.Stat(r.at(stateDir + "/reset")); err != nil {
				t.Errorf("the reset is not noted in STATE: %v", err)
			}
			first := r.requested()
			r.mu.Lock()
			r.wanted = nil
			r.mu.Unlock()
			r.lock.Release(first.priority())
			r.finishReset() // as a boot after a cut does
			if got := r.requested(); got == nil || got.reset != first.reset || got.reset == resetNone {
				t.Fatalf("the boot after a cut asks for %+v; want %+v", got, first)
			}
			r.down(r.requested())
			blank := map[string]bool{}
			for _, d := range r.blocks.Devices() {
				blank[d.Path] = d.Number > 0 && d.FS == ""
			}
			if blank["/dev/mmcblk0p1"] || blank["/dev/mmcblk0p2"] == keep || !blank["/dev/mmcblk0p3"] {
				t.Errorf("blank are %v; want EPHEMERAL, STATE if its identity is not kept, and never the boot partition", blank)
			}
			_, err := os.Stat(r.at(stateDir + "/config.yaml"))
			_, pkiErr := os.Stat(r.at(stateDir + "/pki/ca.crt"))
			if keep && (err == nil || pkiErr != nil) {
				t.Errorf("the config: %v, the identity: %v; want the identity alone", err, pkiErr)
			}
		})
	}
}

// TestResetAndUpgrade exclude each other.
func TestResetAndUpgrade(t *testing.T) {
	r := newRig(t)
	mustDo(t, r.askFor(request{end: restart, by: "laptop", reset: resetAll}))
	var f *api.Failure
	r.upgrades.Manager = upgrade.New(upgrade.Drivers{}, upgrade.Facts{})
	if _, err := r.beginUpgrade(t.Context(), upgrade.Options{}); !errors.As(err, &f) || f.Cause != api.NotNow {
		t.Errorf("an upgrade during a reset = %v; want it refused", err)
	}
}

// TestAPIPort: the port that configs keep free is the one that the API has.
func TestAPIPort(t *testing.T) {
	if config.APIPort != api.Port {
		t.Errorf("pods may not have port %d; want the API's, %d", config.APIPort, api.Port)
	}
}
