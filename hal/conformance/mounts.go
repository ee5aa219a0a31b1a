package conformance

import (
	"path/filepath"
	"slices"
	"testing"

	"machined/hal"
)

// MountsRig is a driver and things to mount.
type MountsRig struct {
	Mounts hal.Mounts
	// Dir returns an existing directory of that name in a place of the rig's
	// own.
	Dir func(name string) string
	// Image is a file with a file system of FSType; NoLoop says why it cannot
	// be attached here, and is empty where it can.
	Image, FSType, NoLoop string
	// Blank is a block device without a file system; empty if there is none.
	Blank string
	// Use keeps the mount at target busy until the returned function is called.
	Use func(t *testing.T, target string) (stop func())
	// Attached reports whether a loop device is still attached.
	Attached func(device string) bool
}

// Mounts checks a driver.
func Mounts(t *testing.T, newRig func(t *testing.T) MountsRig) {
	t.Run("mount, list, unmount", func(t *testing.T) { mountList(t, newRig(t)) })
	t.Run("what is not there", func(t *testing.T) { mountAbsent(t, newRig(t)) })
	t.Run("remount", func(t *testing.T) { remount(t, newRig(t)) })
	t.Run("move", func(t *testing.T) { moveMount(t, newRig(t)) })
	t.Run("busy", func(t *testing.T) { busyMount(t, newRig(t)) })
	t.Run("loop", func(t *testing.T) { loopMount(t, newRig(t)) })
	t.Run("sync", func(*testing.T) { newRig(t).Mounts.Sync() })
}

func tmpfs(target string) hal.Mount {
	return hal.Mount{Source: "tmpfs", Target: target, FSType: "tmpfs", Flags: hal.NoSuid | hal.NoDev | hal.NoExec, Data: "size=64k"}
}

// at returns the mounts at or below dir, in the order of List.
func at(t *testing.T, m hal.Mounts, dir string) []hal.MountInfo {
	t.Helper()
	all, err := m.List()
	must(t, "List()", err)
	return slices.DeleteFunc(all, func(i hal.MountInfo) bool {
		rel, err := filepath.Rel(dir, i.Target)
		return err != nil || !filepath.IsLocal(rel)
	})
}

func mountList(t *testing.T, r MountsRig) {
	a, b, c := r.Dir("a"), r.Dir("name with space"), r.Dir("0")
	for _, dir := range []string{b, a, c} { // not in the order of their names
		must(t, "Mount(tmpfs)", r.Mounts.Mount(tmpfs(dir)))
	}
	got := at(t, r.Mounts, r.Dir(""))
	var want []hal.MountInfo
	for _, dir := range []string{b, a, c} {
		want = append(want, hal.MountInfo{Source: "tmpfs", Target: dir, FSType: "tmpfs"})
	}
	if !slices.Equal(got, want) {
		t.Errorf("List() = %+v; want %+v, in the order of their making", got, want)
	}
	for _, dir := range []string{a, b, c} {
		expect(t, "Unmount", r.Mounts.Unmount(dir, false), nil)
	}
	if left := at(t, r.Mounts, r.Dir("")); len(left) != 0 {
		t.Errorf("List() after unmounting = %+v; want nothing", left)
	}
}

func mountAbsent(t *testing.T, r MountsRig) {
	dir := r.Dir("a")
	expect(t, "Mount of a device that is not there",
		r.Mounts.Mount(hal.Mount{Source: "/dev/no-such-device", Target: dir, FSType: "ext4"}), hal.ErrNoDevice)
	expect(t, "Unmount of no mount", r.Mounts.Unmount(dir, false), hal.ErrNotMounted)
	expect(t, "lazy Unmount of no mount", r.Mounts.Unmount(dir, true), hal.ErrNotMounted)
	expect(t, "Unmount of no directory", r.Mounts.Unmount(dir+"-not", false), hal.ErrNotMounted)
	if r.Blank != "" {
		expect(t, "Mount of a device without a file system",
			r.Mounts.Mount(hal.Mount{Source: r.Blank, Target: dir, FSType: "ext4", Flags: hal.ReadOnly}), hal.ErrInvalid)
		// A type that this kernel was built without never comes: no reason to
		// wait for a device.
		expect(t, "Mount of a type that the kernel does not know",
			r.Mounts.Mount(hal.Mount{Source: r.Blank, Target: dir, FSType: "nosuchfs", Flags: hal.ReadOnly}), hal.ErrInvalid)
	}
	if left := at(t, r.Mounts, r.Dir("")); len(left) != 0 {
		t.Errorf("List() after failed mounts = %+v; want nothing", left)
	}
}

func remount(t *testing.T, r MountsRig) {
	dir := r.Dir("a")
	must(t, "Mount(tmpfs)", r.Mounts.Mount(tmpfs(dir)))
	for _, readOnly := range []bool{true, false} {
		m := hal.Mount{Target: dir, Flags: hal.Remount | hal.NoSuid | hal.NoDev}
		if readOnly {
			m.Flags |= hal.ReadOnly
		}
		expect(t, "Mount(Remount)", r.Mounts.Mount(m), nil)
		if got := at(t, r.Mounts, dir); len(got) != 1 || got[0].ReadOnly != readOnly {
			t.Errorf("List() after remounting with ReadOnly=%v = %+v", readOnly, got)
		}
	}
	expect(t, "Unmount", r.Mounts.Unmount(dir, false), nil)
	expect(t, "Mount(Remount) of no mount", r.Mounts.Mount(hal.Mount{Target: dir, Flags: hal.Remount | hal.ReadOnly}), hal.ErrInvalid)
}

func moveMount(t *testing.T, r MountsRig) {
	from, to := r.Dir("from"), r.Dir("to")
	must(t, "Mount(tmpfs)", r.Mounts.Mount(tmpfs(from)))
	expect(t, "Mount(Move)", r.Mounts.Mount(hal.Mount{Source: from, Target: to, Flags: hal.Move}), nil)
	if got := at(t, r.Mounts, r.Dir("")); len(got) != 1 || got[0].Target != to {
		t.Errorf("List() after Move = %+v; want one mount at %s", got, to)
	}
	expect(t, "Unmount of where it was", r.Mounts.Unmount(from, false), hal.ErrNotMounted)
	expect(t, "Unmount of where it is", r.Mounts.Unmount(to, false), nil)
}

func busyMount(t *testing.T, r MountsRig) {
	dir := r.Dir("a")
	must(t, "Mount(tmpfs)", r.Mounts.Mount(tmpfs(dir)))
	stop := r.Use(t, dir)
	defer stop()
	if err := r.Mounts.Unmount(dir, false); err == nil {
		t.Fatal("Unmount of a busy mount succeeded; want an error")
	}
	expect(t, "lazy Unmount of a busy mount", r.Mounts.Unmount(dir, true), nil)
	if left := at(t, r.Mounts, dir); len(left) != 0 {
		t.Errorf("List() after the lazy Unmount = %+v; want nothing", left)
	}
}

func loopMount(t *testing.T, r MountsRig) {
	if r.NoLoop != "" {
		t.Skip(r.NoLoop)
	}
	if _, _, err := r.Mounts.AttachLoop(r.Image + "-not"); err == nil {
		t.Error("AttachLoop of a file that is not there succeeded; want an error")
	}
	device, release, err := r.Mounts.AttachLoop(r.Image)
	must(t, "AttachLoop", err)
	dir := r.Dir("loop")
	m := hal.Mount{Source: device, Target: dir, FSType: r.FSType}
	if r.Mounts.Mount(m) == nil {
		t.Error("the loop device was mounted for writing; want an error, since it is read-only")
	}
	m.Flags = hal.ReadOnly
	must(t, "Mount of the loop device", r.Mounts.Mount(m))
	release()
	if !r.Attached(device) {
		t.Errorf("%s went with its first user; want it to stay while it is mounted", device)
	}
	if got := at(t, r.Mounts, dir); len(got) != 1 || got[0].Source != device || !got[0].ReadOnly {
		t.Errorf("List() = %+v; want %s, read-only", got, device)
	}
	expect(t, "Unmount", r.Mounts.Unmount(dir, false), nil)
	if r.Attached(device) {
		t.Errorf("%s is still attached after its last user", device)
	}
}
