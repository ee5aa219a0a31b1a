package linux

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"machined/tools/testenv"
)

// TestRealEvents asks the kernel to speak of a device again, and hears it.
func TestRealEvents(t *testing.T) {
	testenv.NeedRoot(t)
	source, err := listenUevents()
	if err != nil {
		t.Fatal(err)
	}
	disks, _ := filepath.Glob("/sys/class/block/*/uevent")
	if len(disks) == 0 {
		t.Skip("no block devices here")
	}
	want := filepath.Base(filepath.Dir(disks[0]))
	if err := os.WriteFile(disks[0], []byte("change"), 0); err != nil {
		source.Close()
		t.Skipf("the kernel cannot be asked here: %v", err)
	}
	heard := make(chan uevent, 1)
	failed := make(chan error, 1)
	go func() {
		for {
			e, err := source.next()
			if err != nil {
				failed <- err
				return
			}
			if e.subsystem == "block" && e.disk == want {
				heard <- e
			}
		}
	}()
	select {
	case <-heard:
	case <-time.After(5 * time.Second):
		t.Skip("no event was heard: this machine's namespace gets none")
	}
	source.Close()
	if err := <-failed; err == nil {
		t.Error("next() of a closed socket succeeded")
	}
}

func TestParseUevent(t *testing.T) {
	const path = "/devices/pci0000:00/virtio1/block/vda"
	for _, c := range []struct {
		message string
		want    uevent
		ok      bool
	}{
		{"add@" + path + "\x00ACTION=add\x00DEVPATH=" + path + "\x00SUBSYSTEM=block\x00DEVNAME=vda\x00DEVTYPE=disk\x00SEQNUM=1", uevent{"block", "vda"}, true},
		{"add@" + path + "/vda1\x00DEVPATH=" + path + "/vda1\x00SUBSYSTEM=block\x00DEVTYPE=partition\x00", uevent{"block", "vda"}, true},
		{"remove@/devices/virtual/net/eth0\x00DEVPATH=/devices/virtual/net/eth0\x00SUBSYSTEM=net\x00", uevent{"net", "eth0"}, true},
		{"add@" + path + "\x00DEVPATH=" + path, uevent{disk: "vda"}, false},
		{"libudev\x00\xfe\xed\xca\xfe", uevent{}, false},
		{"add@" + path, uevent{}, false},
		{"", uevent{}, false},
	} {
		if got, ok := parseUevent([]byte(c.message)); ok != c.ok || ok && got != c.want {
			t.Errorf("parseUevent(%q) = %+v, %v; want %+v, %v", c.message, got, ok, c.want, c.ok)
		}
	}
}

func FuzzParseUevent(f *testing.F) {
	f.Add([]byte("add@/a/b\x00DEVPATH=/a/b\x00SUBSYSTEM=block\x00DEVTYPE=partition\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := parseUevent(b); ok && e.subsystem == "" {
			t.Errorf("parseUevent = %+v; want no event without a subsystem", e)
		}
	})
}
