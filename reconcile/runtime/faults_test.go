package runtime

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
)

func (r *rig) count(prefix string) (n int) {
	for _, c := range r.cri.Calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

// slowPulls makes images come after an hour.
func (r *rig) slowPulls() {
	r.jobs.Delays = func(int) int64 {
		for _, f := range r.pods.fetches {
			if f.absent && f.job == nil {
				return int64(time.Hour)
			}
		}
		return int64(time.Millisecond)
	}
}

// TestSpecThatChangesDuringItsPull: whoever corrects a name does not wait until
// the wrong image has come.
func TestSpecThatChangesDuringItsPull(t *testing.T) {
	r := newRig(t, web())
	r.cri.Registry = append(r.cri.Registry, fake.Source{Ref: "web:2", Image: image("sha256:web2", "web:2")})
	r.slowPulls()
	r.run(time.Minute)
	r.want("web", "Pending", "getting image web:1", 0)
	r.jobs.Delays = nil
	other := web()
	other.Containers[0].Image = "web:2"
	r.configure(other)
	r.run(5 * time.Second)
	r.want("web", "Running", "", 0)
	r.calls()
	r.run(2 * time.Hour) // the other one comes, and nobody wants it
	r.wantCalls("pull web:1")
	r.want("web", "Running", "", 0)
}

// TestPullsOfPastConfigsAreBounded: each waits for an hour, and none can be called
// off.
func TestPullsOfPastConfigsAreBounded(t *testing.T) {
	r := newRig(t)
	r.slowPulls()
	for i := range 50 {
		pod := web()
		pod.Containers[0].Image = "web:" + strconv.Itoa(100+i)
		r.configure(pod)
		r.run(time.Minute)
		if n := len(r.pods.fetches); n > maxPullsInAll+1 {
			t.Fatalf("%d images are being got after %d configs; want %d and the next at most", n, i, maxPullsInAll)
		}
	}
}

// TestOneImageOfManyPods is pulled once.
func TestOneImageOfManyPods(t *testing.T) {
	other := web()
	other.Name = "other"
	r := newRig(t, web(), other)
	r.jobs.Delay = int64(time.Second)
	r.run(time.Minute)
	r.want("web", "Running", "", 0)
	r.want("other", "Running", "", 0)
	if n := r.count("pull"); n != 1 {
		t.Errorf("%d pulls of one image; want 1", n)
	}
}

// TestFormerSpecRunsUntilTheImageIsThere.
func TestFormerSpecRunsUntilTheImageIsThere(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	next := web()
	next.Containers[0].Image = "web:2"
	r.configure(next)
	r.run(5 * time.Minute)
	if _, all, _ := r.cri.Pods(); len(all) != 1 || all[0].State != hal.ContainerRunning {
		t.Errorf("the containers are %+v; want the former one, running", all)
	}
	r.want("web", "Pending", "not found", 0)
	r.cri.Registry = append(r.cri.Registry, fake.Source{Ref: "web:2", Image: image("sha256:web2", "web:2")})
	r.run(2 * time.Minute)
	r.want("web", "Running", "", 0)
}

// TestStartsThatFailLeaveLittle: each attempt had left a container on the card.
func TestStartsThatFailLeaveLittle(t *testing.T) {
	r := newRig(t, web())
	r.cri.FailAlways("StartContainer", errors.New("no such program"))
	r.run(3 * time.Hour)
	if _, all, _ := r.cri.Pods(); len(all) > 2 {
		t.Errorf("%d containers are left of starts that failed; want 2 at most", len(all))
	}
	r.want("web", "Pending", "no such program", r.pod("web").Restarts)
	r.cri.Heal("StartContainer")
	r.run(2 * time.Minute)
	r.want("web", "Running", "", r.pod("web").Restarts)
}

// TestPodThatComesBack, while what was begun for it goes on, waits for that: it
// would be run a second time.
func TestPodThatComesBack(t *testing.T) {
	r := newRig(t, web())
	r.jobs.Delays = func(int) int64 {
		if s := r.pods.find("web"); s != nil && s.doing == "being made" {
			return int64(20 * time.Second)
		}
		return int64(time.Millisecond)
	}
	r.run(5 * time.Second)
	r.want("web", "Pending", "being made", 0)
	r.configure()
	r.run(time.Second)
	r.configure(web())
	r.run(time.Second)
	r.want("web", "Pending", "ending what was begun", 0)
	r.run(2 * time.Minute)
	r.want("web", "Running", "", 0)
	r.wantCalls("pull web:1", "run web", "create web/web#0")
}

// TestPodThatComesBackWhileItGoes is not taken for running.
func TestPodThatComesBackWhileItGoes(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	r.calls()
	r.configure()
	r.jobs.Delays = func(int) int64 {
		if len(r.pods.strays) > 0 && r.pods.strays[0].job == nil {
			return int64(20 * time.Second)
		}
		return int64(time.Millisecond)
	}
	r.run(time.Second)
	r.configure(web())
	r.run(10 * time.Second)
	r.want("web", "Pending", "not made yet", 0)
	r.run(time.Minute)
	r.want("web", "Running", "", 0)
	r.wantCalls("term web/web-2", "stop web-1", "remove web-1", "run web", "create web/web#0")
}

// TestRenamedPod: the next is made when the former has gone, whose ports and
// memory it may need.
func TestRenamedPod(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	r.calls()
	r.jobs.Delay = int64(time.Second)
	renamed := web()
	renamed.Name = "site"
	r.configure(renamed)
	r.run(time.Minute)
	r.wantCalls("term web/web-2", "stop web-1", "remove web-1", "run site", "create site/web#0")
	r.want("site", "Running", "", 0)
}

// graces notes how long containers were given to end.
type graces struct {
	*fake.CRI
	given []int64
}

func (g *graces) StopContainer(id string, grace int64) error {
	g.given = append(g.given, grace)
	return g.CRI.StopContainer(id, grace)
}

func TestGraceOfPodThatWasTakenOut(t *testing.T) {
	pod := web()
	pod.StopGrace = 90 * time.Second
	r := newRig(t, pod)
	g := &graces{CRI: r.cri}
	r.seen = g
	r.start()
	r.run(5 * time.Second)
	r.configure()
	r.run(5 * time.Second)
	if !slices.Equal(g.given, []int64{90}) {
		t.Errorf("the containers were given %d seconds; want the 90 of their pod", g.given)
	}
}

// late is a runtime that starts containers and says too late that it has.
type late struct{ *fake.CRI }

func (l late) StartContainer(id string) error {
	_ = l.CRI.StartContainer(id)
	return hal.Error("the container runtime does not answer")
}

// TestFailureThatWasNone is not told of a pod that runs.
func TestFailureThatWasNone(t *testing.T) {
	r := newRig(t, web())
	r.seen = late{r.cri}
	r.start()
	r.run(time.Minute)
	r.want("web", "Running", "", 0)
}

// TestRuntimeThatLostEverything: without the image of sandboxes it runs no pod.
func TestRuntimeThatLostEverything(t *testing.T) {
	r := newRig(t, web())
	r.cri.Card = []fake.Source{{Ref: "/usr/pause.tar", Image: hal.Image{ID: "sha256:pause", Tags: []string{"pause:1"}, Pinned: true}}}
	r.bundles = []Bundle{{Path: "/usr/pause.tar", Ref: "pause:1"}}
	r.run(5 * time.Second)
	r.service("Waiting")
	r.run(time.Second)
	for _, id := range []string{"sha256:pause", "sha256:web"} {
		_ = r.cri.RemoveImage(id)
	}
	_ = r.cri.RemovePod("web-1")
	_ = r.files.Remove("/var/imported")
	r.calls()
	r.service("Running")
	r.run(10 * time.Second)
	r.wantCalls("import /usr/pause.tar", "pull web:1", "run web", "create web/web#0")
}

// TestCardIsNotReadForEachPull: it takes minutes.
func TestCardIsNotReadForEachPull(t *testing.T) {
	r := newRig(t, web())
	r.bundles = []Bundle{{Path: "/boot/images/a.tar", Stamp: "1 1"}}
	r.cri.Card = []fake.Source{{Ref: "/boot/images/a.tar", Image: image("sha256:a", "a:1")}}
	r.cri.FailAlways("PullImage", hal.Error("the registry does not answer"))
	r.run(time.Hour)
	if n := r.count("import"); n != 2 {
		t.Errorf("the card's images were read %d times; want 2, at the start and before the first pull", n)
	}
	r.want("web", "Pending", "the registry does not answer", 0)
}

// TestCardThatCannotBeReadAtFirst has the image all the same.
func TestCardThatCannotBeReadAtFirst(t *testing.T) {
	pod := web()
	pod.Containers[0].Image = "a:1"
	r := newRig(t, pod)
	r.bundles = []Bundle{{Path: "/boot/images/a.tar", Stamp: "1 1"}}
	r.files.Put("/var/imported", []byte("\"/boot/images/a.tar\" 1 1\n"), false)
	r.run(time.Minute)
	r.cri.Card = []fake.Source{{Ref: "/boot/images/a.tar", Image: image("sha256:a", "a:1")}}
	r.run(2 * readAgain)
	r.want("web", "Running", "", 0)
}

// TestDamagedBundleIsTold by the controller.
func TestDamagedBundleIsTold(t *testing.T) {
	r := newRig(t)
	r.bundles = []Bundle{{Path: "/boot/images/bad.tar", Stamp: "1 1"}}
	r.run(5 * time.Second)
	if all := r.failures(); !slices.Equal(all, []string{"pods: not found"}) {
		t.Errorf("the failures are %q; want the import's", all)
	}
}

// TestImageThatVanishes under a pod that runs is got again for its next start.
func TestImageThatVanishes(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	_ = r.cri.RemoveImage("sha256:web")
	r.calls()
	r.cri.Crash("web", "web", 1, "")
	r.run(time.Minute)
	r.want("web", "Running", "", 1)
	if n := r.count("pull web:1"); n != 1 {
		t.Errorf("%d pulls; want 1", n)
	}
}

// TestDisabledWhileItIsLookedAt: how that ends is nobody's trouble any more.
func TestDisabledWhileItIsLookedAt(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	r.jobs.Delay = int64(2 * time.Second)
	r.cri.Crash("web", "web", 1, "")
	r.run(100 * time.Millisecond)
	r.cri.FailAlways("Pods", hal.Error("the container runtime does not answer"))
	r.configure(web())
	r.settings.Disabled = true
	r.run(time.Minute)
	if all := r.failures(); len(all) > 0 {
		t.Errorf("the failures are %q; want none of a runtime that the config disables", all)
	}
	if n := r.store.Pods.Len(); n != 0 {
		t.Errorf("%d pods are published; want none", n)
	}
}
