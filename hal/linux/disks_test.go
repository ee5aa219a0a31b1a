package linux

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
	"machined/tools/testenv"
)

func TestDisks(t *testing.T) {
	testenv.NeedRoot(t)
	if why := noLoop(); why != "" {
		t.Skip(why)
	}
	conformance.Disks(t, func(t *testing.T) conformance.DisksRig {
		disk := attach(t, makeBlank(t, 64<<20), unix.LO_FLAGS_PARTSCAN)
		t.Cleanup(func() { deletePartitions(t, disk) })
		image := makeExt4(t, 16<<20)
		if err := os.Truncate(image, 32<<20); err != nil {
			t.Fatal(err)
		}
		device, mounted := attach(t, image, 0), t.TempDir()
		if err := (Mounts{}).Mount(hal.Mount{Source: device, Target: mounted, FSType: "ext4"}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := (Mounts{}).Unmount(mounted, false); err != nil {
				t.Error(err)
			}
			checkExt4(t, image)
		})
		return conformance.DisksRig{
			Disks: Disks{}, Disk: disk, Want: disk + "p2", Mounted: mounted,
			Size: func() int64 { return ext4Size(t, device) }, NoGrow: noGrow(t),
		}
	})
}

// noGrow says why the kernel would not grow a file system for this program.
func noGrow(t *testing.T) string {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		t.Fatal(err)
	}
	if sets[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		return "this machine withholds CAP_SYS_RESOURCE, without which the kernel grows no ext4"
	}
	return ""
}

// deletePartitions takes back what a test told the kernel of, so that the loop
// device is free again.
func deletePartitions(t *testing.T, disk string) {
	f, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for number := range 4 {
		_ = blkpg(f, unix.BLKPG_DEL_PARTITION, unix.BlkpgPartition{Pno: int32(number)})
	}
}

// ext4Size reads the size from the superblock (block count, fs/ext4/ext4.h).
func ext4Size(t *testing.T, device string) int64 {
	t.Helper()
	unix.Sync()
	f, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	super := make([]byte, 1024)
	if _, err := f.ReadAt(super, 1024); err != nil {
		t.Fatal(err)
	}
	return int64(binary.LittleEndian.Uint32(super[4:])) << (10 + binary.LittleEndian.Uint32(super[24:]))
}

// checkExt4 has the real e2fsck judge what the kernel's growing left.
func checkExt4(t *testing.T, image string) {
	t.Helper()
	if out, err := exec.Command("e2fsck", "-f", "-n", image).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
}

func TestPartitionPath(t *testing.T) {
	for _, c := range []struct {
		disk   string
		number int
		want   string
	}{
		{"/dev/sda", 2, "/dev/sda2"}, {"/dev/vdz", 11, "/dev/vdz11"}, {"/dev/mmcblk0", 2, "/dev/mmcblk0p2"},
		{"/dev/nvme0n1", 3, "/dev/nvme0n1p3"}, {"/dev/sdp", 1, "/dev/sdp1"},
	} {
		if got := PartitionPath(c.disk, c.number); got != c.want {
			t.Errorf("PartitionPath(%q, %d) = %q; want %q", c.disk, c.number, got, c.want)
		}
	}
}

func TestGrowExt4OfNoMount(t *testing.T) {
	if err := (Disks{}).GrowExt4(filepath.Join(t.TempDir(), "not"), 1<<20); err == nil {
		t.Error("GrowExt4 of a directory that is not there succeeded; want an error")
	}
}
