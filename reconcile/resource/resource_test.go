package resource

import (
	"fmt"
	"strings"
	"testing"

	"machined/hal"
)

// kinds are the rows of the API's table of resources.
func kinds() map[string][]string {
	return map[string][]string{
		Network: {"LinkSpec", "AddressSpec", "RouteSpec", "HostnameSpec", "ResolverSpec", "LinkStatus", "AddressStatus", "RouteStatus", "LeaseStatus"},
		Block:   {"DiskStatus", "DiscoveredVolume", "VolumeStatus", "MountStatus"},
		Runtime: {"MachineConfig", "ServiceStatus", "TimeStatus", "RuntimeStatus", "PodStatus", "UpgradeStatus", "SlotStatus", "BootStatus", "MemoryStatus", "ControllerStatus"},
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
	prefix := hal.Prefix{Address: hal.Address{Bytes: [16]byte{10, 7, 0, 2}, Len: 4}, Bits: 24}
	gateway := hal.Address{Bytes: [16]byte{10, 7, 0, 1}, Len: 4}
	anywhere := hal.Prefix{Address: hal.Address{Len: 4}}
	for _, c := range []struct {
		resource Resource
		id       string
		fields   string
	}{
		{LinkSpec{Name: "eth0", Up: true, MTU: 1400, DHCP4: true}, "eth0", "name=eth0 up=true mtu=1400 dhcp4=true accept_ra=false"},
		{AddressSpec{Link: "eth0", Address: prefix}, "eth0/10.7.0.2/24", "link=eth0 address=10.7.0.2/24"},
		{
			RouteSpec{Link: "eth0", Destination: anywhere, Gateway: gateway, Metric: 1024}, "eth0/0.0.0.0/0>10.7.0.1#1024",
			"link=eth0 destination=0.0.0.0/0 gateway=10.7.0.1 metric=1024",
		},
		{HostnameSpec{Hostname: "node-1"}, "hostname", "hostname=node-1"},
		{ResolverSpec{Nameservers: "10.7.0.1 fe80::1%eth0", Search: "lan"}, "resolver", "nameservers=10.7.0.1 fe80::1%eth0 search=lan"},
		{
			LinkStatus{Name: "eth0", Index: 2, Up: true, Carrier: true, MTU: 1500, MAC: [6]byte{0xb8, 0x27, 0xeb, 0, 0x0f, 0xa1}}, "eth0",
			"name=eth0 up=true mtu=1500 mac=b8:27:eb:00:0f:a1 carrier=true present=true",
		},
		{AddressStatus{Link: "eth0", Address: prefix}, "eth0/10.7.0.2/24", "link=eth0 address=10.7.0.2/24"},
		{
			RouteStatus{Link: "eth0", Destination: anywhere, Gateway: gateway}, "eth0/0.0.0.0/0>10.7.0.1",
			"link=eth0 destination=0.0.0.0/0 gateway=10.7.0.1 metric=0",
		},
		{LeaseStatus{Link: "eth0", State: "INIT", Trouble: "no offer"}, "eth0", "link=eth0 state=INIT address= trouble=no offer"},
		{
			LeaseStatus{
				Link: "eth0", State: "BOUND", Address: prefix, Server: gateway, MTU: 1400, Hostname: "n", Nameservers: "10.7.0.1", Search: "lan",
				TimeServers: "10.7.0.1", ExpiresNS: 3600e9, RouteCount: 2, Routes: [MaxLeaseRoutes]LeaseRoute{{anywhere, gateway}, {prefix.Masked(), hal.Address{}}},
			}, "eth0",
			"link=eth0 state=BOUND address=10.7.0.2/24 server=10.7.0.1 routes=0.0.0.0/0>10.7.0.1 10.7.0.0/24> mtu=1400 hostname=n " +
				"nameservers=10.7.0.1 search=lan time_servers=10.7.0.1 expires_after_boot=3600.0s trouble=",
		},
		{
			DiskStatus{Name: "sda", Path: "/dev/sda", SizeBytes: 256060514304, Model: "M", Rotational: true, Serial: "S", Bus: "ata", Table: "gpt"}, "sda",
			"name=sda path=/dev/sda size_bytes=256060514304 model=M rotational=true read_only=false serial=S bus=ata table=gpt trouble=",
		},
		{
			DiscoveredVolume{Device: "/dev/sda1", Disk: "sda", PartitionLabel: "EFI", FSType: "vfat", FSLabel: "BOOT", UUID: "AB-CD", SizeBytes: 1}, "/dev/sda1",
			"device=/dev/sda1 disk=sda partition_label=EFI fs_type=vfat size_bytes=1 fs_label=BOOT uuid=AB-CD trouble=",
		},
		{
			VolumeStatus{Name: "STATE", Device: "/dev/sda2", FS: "ext4", Label: "STATE", Phase: "Refused", Message: "why"}, "STATE",
			"name=STATE device=/dev/sda2 fs=ext4 label=STATE phase=Refused message=why",
		},
		{
			MountStatus{Volume: "STATE", Source: "/dev/sda2", Target: "/system/state", FSType: "ext4", Mounted: true}, "/system/state",
			"volume=STATE source=/dev/sda2 target=/system/state fstype=ext4 mounted=true",
		},
		{MachineConfig{Source: "image", Bytes: "{}"}, "machine-config", "bytes={} source=image rejected="},
		{ServiceStatus{ServiceID: "kiosk", State: "Running", Healthy: true, Message: "running"}, "kiosk", "service_id=kiosk state=Running healthy=true message=running restarts=0 failures_in_row=0 last_exit= last_output= oom_kills=0 critical=false since=0.0s pid=0"},
		{TimeStatus{Synced: true, Server: "ntp", OffsetNS: -5, SyncCount: 2}, "time", "synced=true server=ntp offset_ns=-5 sync_count=2 message="},
		{RuntimeStatus{Ready: true, Name: "containerd", Version: "2"}, "containerd", "ready=true name=containerd version=2 network_ready=false message="},
		{PodStatus{Name: "p", Phase: "Running", ContainerID: "c", PodIP: "10.0.0.1"}, "p", "name=p phase=Running container_id=c pod_ip=10.0.0.1 message= ready=false restarts=0"},
		{UpgradeStatus{Phase: "Staged"}, "upgrade", "phase=Staged message= slot= from_version= to_version= bytes=0 total_bytes=0"},
		{SlotStatus{Slot: "B", Version: "v2", State: "trial", Running: true, Tries: 2, LastBoot: "b00t", Reason: "new"}, "B", "slot=B version=v2 state=trial running=true default=false tries=2 last_boot=b00t reason=new"},
		{BootStatus{Slot: "A", BootID: "b00t", Reason: "user", Detail: "admin"}, "boot", "slot=A boot_id=b00t reason=user detail=admin problem= trial=false"},
		{MemoryStatus{MemTotalKB: 4, MemAvailableKB: 3, RSSAnonKB: 2, RSSFileKB: 1, WakeUps: 9, CPUMS: 8, Goroutines: 7, OpenFiles: 6}, "memory", "mem_total_kb=4 mem_available_kb=3 rss_anon_kb=2 rss_file_kb=1 wake_ups=9 cpu_ms=8 goroutines=7 open_files=6"},
		{ControllerStatus{Name: "c", Runs: 3, Failures: 1, LastError: "why", NextRunNS: 1500e6}, "c", "name=c runs=3 failures=1 last_error=why next_run=1.5s"},
		{ControllerStatus{Name: "c", NextRunNS: -1}, "c", "name=c runs=0 failures=0 last_error= next_run=on change"},
	} {
		if got := c.resource.Key().String(); got != c.id {
			t.Errorf("%v %+v has the id %q; want %q", c.resource.Kind(), c.resource, got, c.id)
		}
		var fields []string
		for _, f := range c.resource.Fields() {
			fields = append(fields, f.Key+"="+f.Value)
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("%v has the fields %q; want %q", c.resource.Kind(), got, c.fields)
		}
	}
}

// FuzzKey checks that keys which are the same have the same hash, and that
// Same is ==.
func FuzzKey(f *testing.F) {
	f.Add("eth0", "eth1", []byte{10, 7, 0, 2}, []byte{10, 7, 0, 3}, uint32(0))
	f.Add("wlan0", "wlan0", []byte{}, []byte{}, uint32(7))
	f.Fuzz(func(t *testing.T, a, b string, pa, pb []byte, n uint32) {
		key := func(name string, p []byte) Key {
			k := Key{Name: name}
			if len(p) >= 4 {
				k.Prefix.Address.Len = uint8(copy(k.Prefix.Address.Bytes[:4], p))
				k.Prefix.Bits, k.Number = uint8(n%33), n
			}
			return k
		}
		x, y := key(a, pa), key(b, pb)
		if x.Same(&y) != (x == y) {
			t.Errorf("%v.Same(%v) = %v; want %v", x, y, x.Same(&y), x == y)
		}
		again := key(strings.Clone(a), pa)
		if again.Hash() != x.Hash() {
			t.Errorf("%v has the hashes %x and %x", x, x.Hash(), again.Hash())
		}
	})
}

// TestHashSpreads guards the index of the store: names that differ in one byte
// must not meet in its lower bits.
func TestHashSpreads(t *testing.T) {
	for _, name := range []string{"eth%d", "enp3s0f%d", "veth%06d", "/dev/mmcblk0p%d", "%d"} {
		used := make(map[uint32]bool)
		for i := range 64 {
			k := Named(fmt.Sprintf(name, i))
			used[k.Hash()%128] = true
		}
		if len(used) < 32 {
			t.Errorf("64 names like %s share %d of 128 places; want 32 or more", name, len(used))
		}
	}
}
