package main

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// TestReport says what a person at the console reads, and that nothing is said
// twice.
func TestReport(t *testing.T) {
	s := reconcile.NewStore(nil)
	var outputs []reconcile.Output
	for _, k := range resource.Kinds() {
		outputs = append(outputs, reconcile.Output{Kind: k})
	}
	by, err := s.Register("test", outputs...)
	mustDo(t, err)
	var lines []string
	r := newReporter(s, func(component, format string, args ...any) {
		lines = append(lines, component+": "+fmt.Sprintf(format, args...))
	}, func() bool { return false })
	address := resource.AddressStatus{Link: "eth0", Address: hal.Prefix{Address: hal.Address{Len: 4, Bytes: [16]byte{10, 7, 0, 2}}, Bits: 24}}
	for _, step := range []struct {
		what string
		do   func() error
		want []string
	}{
		{"absent link", func() error { return s.Links.Put(by, resource.LinkStatus{Name: "eth0"}) }, []string{"network: eth0 is not there; waiting for it."}},
		{"link without carrier", func() error { return s.Links.Put(by, resource.LinkStatus{Name: "eth0", Index: 2, Wired: true}) }, []string{"network: eth0 has no carrier."}},
		{"link up", func() error {
			return s.Links.Put(by, resource.LinkStatus{Name: "eth0", Index: 2, Wired: true, Up: true, Carrier: true})
		}, []string{"network: eth0 is up."}},
		{"link up, another MTU", func() error {
			return s.Links.Put(by, resource.LinkStatus{Name: "eth0", Index: 2, Wired: true, Up: true, Carrier: true, MTU: 9000})
		}, nil},
		{"loopback", func() error {
			return s.Links.Put(by, resource.LinkStatus{Name: "lo", Index: 1, Up: true, Loopback: true})
		}, nil},
		{"address of a container", func() error {
			return s.Addresses.Put(by, resource.AddressStatus{Link: "veth0", Address: address.Address})
		}, nil},
		{"address", func() error {
			return errors.Join(s.LinkSpecs.Put(by, resource.LinkSpec{Name: "eth0"}), s.Addresses.Put(by, address))
		}, []string{"network: eth0 has the address 10.7.0.2/24."}},
		{"lease in trouble", func() error {
			return s.Leases.Put(by, resource.LeaseStatus{Link: "eth0", State: "SELECTING", Trouble: "no DHCP server answers"})
		}, []string{"dhcp: eth0: no DHCP server answers."}},
		{"volume", func() error {
			return s.Volumes.Put(by, resource.VolumeStatus{Name: "STATE", Phase: "Refused", Message: "why"})
		}, []string{"volumes: STATE is Refused: why."}},
		{"no time", func() error { return s.Time.Put(by, resource.TimeStatus{Message: "no time server answers"}) }, []string{"time: no time server answers."}},
		{"still no time", func() error { return s.Time.Put(by, resource.TimeStatus{Message: "ntp: another reason"}) }, nil},
		{"time", func() error { return s.Time.Put(by, resource.TimeStatus{Synced: true, Server: "ntp", SyncCount: 1}) }, []string{"time: The clock follows ntp."}},
		{"controller", func() error {
			return s.Controllers.Put(by, resource.ControllerStatus{Name: "disks", LastError: "oops"})
		}, []string{"disks: oops."}},
		{"controller, again", func() error {
			return s.Controllers.Put(by, resource.ControllerStatus{Name: "disks", Runs: 1, LastError: "oops"})
		}, nil},
		{"controller, well for a moment", func() error { return s.Controllers.Put(by, resource.ControllerStatus{Name: "disks", Runs: 2}) }, nil},
		{"controller, the same once more", func() error {
			return s.Controllers.Put(by, resource.ControllerStatus{Name: "disks", Runs: 3, LastError: "oops"})
		}, nil},
		{"controller, well", func() error { return s.Controllers.Put(by, resource.ControllerStatus{Name: "disks", Runs: 14}) }, nil},
		{"controller, the same as news", func() error {
			return s.Controllers.Put(by, resource.ControllerStatus{Name: "disks", Runs: 15, LastError: "oops"})
		}, []string{"disks: oops."}},
		{"volume, tried again", func() error {
			return s.Volumes.Put(by, resource.VolumeStatus{Name: "STATE", Phase: "Mounting"})
		}, nil},
		{"volume, refused again", func() error {
			return s.Volumes.Put(by, resource.VolumeStatus{Name: "STATE", Phase: "Refused", Message: "why"})
		}, nil},
		{"link gone", func() error { return s.Links.Destroy(by, resource.Named("eth0")) }, []string{"network: eth0 is gone."}},
	} {
		lines = nil
		mustDo(t, step.do())
		r.look()
		r.look()
		if !slices.Equal(lines, step.want) {
			t.Errorf("%s: the console says %q; want %q", step.what, lines, step.want)
		}
	}
	lines = nil
	for i := range uint32(100) { // more than can be told of each
		mustDo(t, s.Links.Put(by, resource.LinkStatus{Name: "eth9", Index: 9, Wired: true, MTU: i}))
		if i == 0 {
			r.look()
		}
	}
	mustDo(t, s.Links.Destroy(by, resource.Named("eth9")))
	r.look()
	if want := []string{"network: eth9 has no carrier.", "network: eth9 is gone."}; !slices.Equal(lines, want) {
		t.Errorf("a link that went in a crowd: the console says %q; want %q", lines, want)
	}
	if len(r.said) > 6 {
		t.Errorf("%d subjects are remembered; want those that are there", len(r.said))
	}
}
