package runtime

import (
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
)

// TestImagesOfTheCard are there before the first pod is made, and are not read
// again at each boot.
func TestImagesOfTheCard(t *testing.T) {
	pod := web()
	pod.Containers[0].Image = "mine:1"
	r := newRig(t, pod)
	r.bundles = []Bundle{{Path: "/usr/pause.tar", Ref: "pause:1"}, {Path: "/boot/images/mine.tar", Stamp: "100 5"}}
	r.cri.Card = []fake.Source{
		{Ref: "/usr/pause.tar", Image: hal.Image{ID: "sha256:pause", Tags: []string{"pause:1"}, Pinned: true}},
		{Ref: "/boot/images/mine.tar", Image: image("sha256:mine", "mine:1")},
	}
	r.run(5 * time.Second)
	r.wantCalls("import /usr/pause.tar", "import /boot/images/mine.tar", "run web", "create web/web#0")
	r.want("web", "Running", "", 0)
	r.cri.Reboot()
	r.start()
	r.run(5 * time.Second)
	r.wantCalls("stop web-1", "remove web-1", "run web", "create web/web#0")

	// Another card in the slot: another stamp.
	r.bundles[1].Stamp = "101 6"
	r.start()
	r.run(5 * time.Second)
	r.wantCalls("import /boot/images/mine.tar")

	// An image that was collected is taken from the card again, not pulled.
	if err := r.cri.RemoveImage("sha256:mine"); err != nil {
		t.Fatal(err)
	}
	r.calls()
	r.cri.Reboot()
	r.start()
	r.run(10 * time.Second)
	r.wantCalls("stop web-3", "remove web-3", "import /boot/images/mine.tar", "run web", "create web/web#0")
}

// TestDamagedBundle stands in no other's way.
func TestDamagedBundle(t *testing.T) {
	r := newRig(t, web())
	r.bundles = []Bundle{{Path: "/boot/images/bad.tar", Stamp: "1 1"}}
	r.run(5 * time.Second)
	r.want("web", "Running", "", 0)
	before := len(r.calls())
	r.run(10 * time.Minute)
	if n := len(r.calls()); before == 0 || n == 0 || n > 20 {
		t.Errorf("%d calls in ten minutes; want the import tried again, ever more slowly", n)
	}
	r.cri.Card = []fake.Source{{Ref: "/boot/images/bad.tar", Image: image("sha256:good", "good:1")}}
	r.run(2 * time.Minute)
	r.calls()
	r.run(time.Hour)
	r.wantCalls()
}

// TestCollect fills the disk and expects the images go that nobody needs.
func TestCollect(t *testing.T) {
	r := newRig(t, web())
	r.cri.Card = []fake.Source{
		{Ref: "a", Image: hal.Image{ID: "sha256:a", SizeBytes: 10 << 20}}, {Ref: "b", Image: hal.Image{ID: "sha256:b", SizeBytes: 10 << 20}},
		{Ref: "c", Image: hal.Image{ID: "sha256:c", SizeBytes: 10 << 20}}, {Ref: "p", Image: hal.Image{ID: "sha256:p", SizeBytes: 10 << 20, Pinned: true}},
	}
	for _, ref := range []string{"a", "b", "c", "p"} {
		if err := r.cri.Import(ref); err != nil {
			t.Fatal(err)
		}
	}
	r.cri.Size, r.cri.Free = 100<<20, 20<<20 // 80 % are used
	r.run(10 * time.Minute)
	if images, _ := r.cri.Images(); len(images) != 5 {
		t.Errorf("%d images below the limit; want all 5", len(images))
	}
	r.cri.Free = 12 << 20 // 88 %
	r.run(6 * time.Minute)
	images, _ := r.cri.Images()
	var left string
	for _, i := range images {
		left += " " + i.ID
	}
	// Two of ten MiB bring it to 68 %; the web's image is in use, p is pinned.
	if want := " sha256:c sha256:p sha256:web"; left != want {
		t.Errorf("left are%s; want%s", left, want)
	}
	r.want("web", "Running", "", 0)
	r.cri.Free = 1 << 20
	r.run(6 * time.Minute)
	if images, _ := r.cri.Images(); len(images) != 2 {
		t.Errorf("%d images on a disk that stays full; want the 2 that are needed", len(images))
	}
}
