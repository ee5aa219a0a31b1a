package runtime

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"machined/hal"
)

func TestIdlePassAllocatesNothing(t *testing.T) {
	pod := web()
	pod.Containers[0].Probe = &Probe{Kind: ProbeTCP, Target: ":80", Period: time.Hour, Timeout: time.Second, Threshold: 3}
	r := newRig(t, pod)
	r.run(5 * time.Second)
	r.want("web", "Running", "", 0)
	now := time.Duration(r.clock.SinceBoot())
	if n := testing.AllocsPerRun(100, func() { r.loop.Pass(now) }); n != 0 {
		t.Errorf("an idle pass allocates %v times; want 0", n)
	}
}

func TestMessagesAreBoundedAndTellNoPassword(t *testing.T) {
	pod := web()
	pod.Containers[0].Image = "registry.example/web:1"
	r := newRig(t, pod)
	r.settings.Registries = []Registry{{Host: "registry.example", Auth: hal.Auth{Username: "u", Password: "s3cret"}}}
	r.cri.FailAlways("PullImage", hal.Error("GET https://u:s3cret@registry.example/v2/: "+strings.Repeat("ö", 1000)))
	r.run(5 * time.Second)
	m := r.pod("web").Message
	if strings.Contains(m, "s3cret") || !strings.HasPrefix(m, "GET https://u:***@registry.example") {
		t.Errorf("the message is %q; want it without the password", m)
	}
	if len(m) > textMost+3 || !utf8.ValidString(m) {
		t.Errorf("the message has %d bytes, valid: %v; want %d at most", len(m), utf8.ValidString(m), textMost+3)
	}
	r.cri.FailAlways("Status", hal.Error(strings.Repeat("x", 5000)))
	r.run(time.Minute)
	if m := r.runtime().Message; len(m) > textMost+3 {
		t.Errorf("the runtime's message has %d bytes; want %d at most", len(m), textMost+3)
	}
}

// TestProbeAndConfig: another config does not make a container unwell, nor does a
// probe that is not asked any more end it.
func TestProbeAndConfig(t *testing.T) {
	probed := web()
	probed.Containers[0].Probe = &Probe{Kind: ProbeExec, Exec: []string{"0"}, Period: 10 * time.Second, Timeout: time.Second, Threshold: 3}
	r := newRig(t, probed)
	r.run(5 * time.Second)
	again := web()
	again.Containers[0].Probe = &Probe{Kind: ProbeExec, Exec: []string{"0"}, Period: 10 * time.Second, Timeout: time.Second, Threshold: 3}
	other := web()
	other.Name = "other"
	r.configure(again, other)
	r.run(0)
	if !r.pod("web").Ready {
		t.Error("the pod is not ready after a config that says the same of it")
	}
	r.run(5 * time.Second)
	r.pods.find("web").containers[0].probe.restart = true // it has just failed
	r.configure(web(), other)
	r.run(time.Minute)
	r.want("web", "Running", "", 0)
	r.configure(again, other)
	r.run(time.Minute)
	r.want("web", "Running", "", 0)
}

// TestCollectKeepsWhatItCannotLookUp: an image of the config whose look-up fails
// is not one that nobody uses.
func TestCollectKeepsWhatItCannotLookUp(t *testing.T) {
	pod := web()
	pod.HostNetwork = false
	r := newRig(t, pod)
	r.cri.State.NetworkReady = false // nothing uses the image yet
	if _, err := r.cri.PullImage("web:1", hal.Auth{}); err != nil {
		t.Fatal(err)
	}
	r.cri.Size, r.cri.Free = 100<<20, 1<<20
	r.settings.Pods[0].Containers[0].Image = "docker.io/library/web:1"
	r.cri.FailAlways("Image", hal.Error("the container runtime does not answer"))
	r.run(time.Hour)
	if images, _ := r.cri.Images(); len(images) != 1 {
		t.Errorf("%d images are left; want the one of the config", len(images))
	}
}

// TestDeadContainersGoUnderPressure, and the pod has ended all the same.
func TestDeadContainersGoUnderPressure(t *testing.T) {
	pod := web()
	pod.Restart = Never
	r := newRig(t, pod)
	r.run(5 * time.Second)
	r.cri.Crash("web", "web", 3, "")
	r.run(20 * time.Minute)
	r.want("web", "Failed", "web exited with code 3", 0)
	if _, all, _ := r.cri.Pods(); len(all) != 1 {
		t.Errorf("%d containers are left while there is space; want the one that has ended", len(all))
	}
	r.calls()
	r.cri.Size, r.cri.Free = 100<<20, 1<<20
	r.run(20 * time.Minute)
	r.wantCalls("remove web/web-2")
	r.want("web", "Failed", "web exited with code 3", 0)

	again := web()
	r.configure(again) // which is to run for ever
	r.run(10 * time.Second)
	r.want("web", "Running", "", 1)
}

// TestNewProcess: an answer that the process before has given is not the next
// one's, even where the time between was not seen.
func TestNewProcess(t *testing.T) {
	r := newRig(t)
	r.servicePID(1)
	r.run(5 * time.Second)
	r.jobs.Delay = int64(2 * time.Second)
	r.run(6 * time.Second) // a question is under way
	r.cri.State.Ready = false
	r.servicePID(2)
	r.run(time.Millisecond)
	if s := r.runtime(); s.Ready || s.Message != "it has just been started" {
		t.Errorf("the status is %+v; want not ready, for it has just been started", s)
	}
}
