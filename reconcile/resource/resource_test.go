package resource

import (
	"slices"
	"testing"
)

// kinds are the rows of the API's table of resources.
func kinds() map[string][]string {
	return map[string][]string{
		Network: {"LinkSpec", "AddressSpec", "RouteSpec", "HostnameSpec", "ResolverSpec", "LinkStatus", "AddressStatus", "RouteStatus"},
		Block:   {"DiskStatus", "DiscoveredVolume", "VolumeStatus", "MountStatus"},
		Runtime: {"MachineConfig", "ServiceStatus", "TimeStatus", "RuntimeStatus", "PodStatus", "UpgradeStatus"},
	}
}

func TestKinds(t *testing.T) {
	seen := make(map[string]bool)
	for _, k := range Kinds() {
		name, namespace := k.String(), k.Namespace()
		if name == "" || namespace == "" || seen[name] {
			t.Errorf("kind %d has the name %q in %q; want a name of its own and a namespace", k, name, namespace)
		}
		seen[name] = true
		if got, ok := KindByName(name); got != k || !ok {
			t.Errorf("KindByName(%q) = %d, %v; want %d", name, got, ok, k)
		}
	}
	for namespace, names := range kinds() {
		for _, name := range names {
			k, ok := KindByName(name)
			if !ok || k.Namespace() != namespace {
				t.Errorf("KindByName(%q) = %d in %q, %v; want a kind in %q", name, k, k.Namespace(), ok, namespace)
			}
		}
	}
	for _, name := range []string{"", "linkstatus", "LinkStatus ", "Nonsense"} {
		if k, ok := KindByName(name); ok {
			t.Errorf("KindByName(%q) = %v, true; want false", name, k)
		}
	}
	for _, k := range []Kind{0, kindEnd, 255} {
		if k.String() != "" || k.Namespace() != "" {
			t.Errorf("kind %d, which is none, has the name %q in %q", k, k, k.Namespace())
		}
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		resource Resource
		kind     Kind
		id       string
		fields   []Field
	}{
		{
			LinkStatus{Name: "eth0", Up: true, MTU: 1500, MAC: [6]byte{0xb8, 0x27, 0xeb, 0, 0x0f, 0xa1}}, LinkStatusKind, "eth0",
			[]Field{{"name", "eth0"}, {"up", "true"}, {"mtu", "1500"}, {"mac", "b8:27:eb:00:0f:a1"}},
		},
		{
			AddressStatus{Link: "eth0", Address: "10.7.0.2/24"}, AddressStatusKind, "eth0/10.7.0.2/24",
			[]Field{{"link", "eth0"}, {"address", "10.7.0.2/24"}},
		},
		{
			RouteStatus{Link: "eth0", Destination: "0.0.0.0/0", Gateway: "10.7.0.1", Metric: 1024}, RouteStatusKind, "0.0.0.0/0@eth0#1024",
			[]Field{{"link", "eth0"}, {"destination", "0.0.0.0/0"}, {"gateway", "10.7.0.1"}},
		},
		{
			VolumeStatus{Name: "STATE", Device: "/dev/sda2", FS: "ext4", Label: "STATE", Phase: "Ready"}, VolumeStatusKind, "STATE",
			[]Field{{"name", "STATE"}, {"device", "/dev/sda2"}, {"fs", "ext4"}, {"label", "STATE"}, {"phase", "Ready"}},
		},
		{
			MachineConfig{Source: "image", Bytes: "{}\n"}, MachineConfigKind, "machine-config",
			[]Field{{"bytes", "{}\n"}, {"source", "image"}, {"rejected", ""}},
		},
		{
			ServiceStatus{ServiceID: "kiosk", State: "Running", Healthy: true, Message: "running"}, ServiceStatusKind, "kiosk",
			[]Field{{"service_id", "kiosk"}, {"state", "Running"}, {"healthy", "true"}, {"message", "running"}},
		},
		{
			MountStatus{Volume: "STATE", Source: "/dev/sda2", Target: "/system/state", FSType: "ext4", Mounted: true}, MountStatusKind, "/system/state",
			[]Field{{"volume", "STATE"}, {"source", "/dev/sda2"}, {"target", "/system/state"}, {"fstype", "ext4"}, {"mounted", "true"}},
		},
	} {
		if got := c.resource.Kind(); got != c.kind {
			t.Errorf("%+v has the kind %v; want %v", c.resource, got, c.kind)
		}
		if got := c.resource.ID(); got != c.id {
			t.Errorf("%v %+v has the ID %q; want %q", c.kind, c.resource, got, c.id)
		}
		if got := c.resource.Fields(); !slices.Equal(got, c.fields) {
			t.Errorf("%v has the fields %v; want %v", c.kind, got, c.fields)
		}
	}
}

// TestRoutesApart checks that two routes of one destination are two resources,
// as they are two routes in the kernel.
func TestRoutesApart(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range []RouteStatus{
		{Link: "eth0", Destination: "0.0.0.0/0", Metric: 1}, {Link: "eth0", Destination: "0.0.0.0/0", Metric: 2},
		{Link: "eth1", Destination: "0.0.0.0/0", Metric: 1}, {Link: "eth0", Destination: "::/0", Metric: 1},
	} {
		if seen[r.ID()] {
			t.Errorf("%+v has the ID %q of another route", r, r.ID())
		}
		seen[r.ID()] = true
	}
}
