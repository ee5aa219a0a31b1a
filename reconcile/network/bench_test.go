package network

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// BenchmarkConfigToStatus changes an address of the config, on a node with four
// links, and goes on until the status tells of it and of nothing else: from
// config to spec to the (simulated) kernel to status.
func BenchmarkConfigToStatus(b *testing.B) {
	links := &fake.Links{}
	settings := &Settings{}
	for i := range 4 {
		name := "eth" + strconv.Itoa(i)
		links.Add(hal.Link{Name: name, Wired: true, Carrier: true})
		settings.Interfaces = append(settings.Interfaces, Interface{
			Name: name, Up: true, Addresses: []hal.Prefix{address4(10, byte(i), 0, 1)},
			Routes: []Route{{Destination: hal.Prefix{Address: hal.Address{Len: 4}}, Gateway: address4(10, byte(i), 0, 254).Address, Metric: uint32(i)}},
		})
	}
	s := reconcile.NewStore(new(sync.Mutex))
	l, err := reconcile.NewLoop(s, 1)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []reconcile.Controller{
		&Observe{Links: links}, &Config{Settings: func() *Settings { return settings }}, &Apply{Links: links, Host: fake.NewHost("")},
	} {
		if err := l.Add(c); err != nil {
			b.Fatal(err)
		}
	}
	by, err := s.Register("bench", reconcile.Output{Kind: resource.MachineConfigKind})
	if err != nil {
		b.Fatal(err)
	}
	now, round := time.Second, 0
	b.ReportAllocs()
	for b.Loop() {
		round++
		old := settings.Interfaces[2].Addresses[0]
		wanted := address4(10, 2, 0, byte(1+round%2))
		settings.Interfaces[2].Addresses[0] = wanted
		if err := s.MachineConfigs.Put(by, resource.MachineConfig{Source: "bench", Bytes: strconv.Itoa(round)}); err != nil {
			b.Fatal(err)
		}
		now += time.Minute
		l.Pass(now)
		_, _, there := s.Addresses.Get(resource.AddressStatus{Link: "eth2", Address: wanted}.Key())
		_, _, stays := s.Addresses.Get(resource.AddressStatus{Link: "eth2", Address: old}.Key())
		if !there || stays && old != wanted {
			b.Fatalf("round %d: %v is there: %v, %v: %v; want the first alone", round, wanted, there, old, stays)
		}
	}
}

func address4(a, b, c, d byte) hal.Prefix {
	return hal.Prefix{Address: hal.Address{Len: 4, Bytes: [16]byte{a, b, c, d}}, Bits: 24}
}
