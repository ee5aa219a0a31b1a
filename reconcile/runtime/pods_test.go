package runtime

import (
	"slices"
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
)

func TestPodIsMadeAndStays(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	r.want("web", "Running", "", 0)
	r.wantCalls("pull web:1", "run web", "create web/web#0")
	if p := r.pod("web"); p.PodIP != "10.88.0.2" || p.ContainerID == "" || !p.Ready {
		t.Errorf("the status is %+v; want an address, a container and ready", p)
	}
	if !slices.Equal(r.prepared, []string{"web"}) {
		t.Errorf("prepared %q; want web", r.prepared)
	}
	r.run(30 * time.Minute)
	r.wantCalls()

	// A new start of the program, and a config that says the same, change
	// nothing.
	r.start()
	r.run(time.Minute)
	r.configure(web())
	r.run(time.Minute)
	r.wantCalls()
	r.want("web", "Running", "", 0)
}

func TestChangedSpecReplaces(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	r.calls()
	changed := web()
	changed.Containers[0].Args = []string{"-v"}
	r.configure(changed)
	r.run(5 * time.Second)
	r.wantCalls("term web/web-2", "stop web-1", "remove web-1", "run web", "create web/web#0")
	r.want("web", "Running", "", 0)
	r.configure()
	r.run(5 * time.Second)
	r.wantCalls("term web/web-4", "stop web-3", "remove web-3")
	if r.store.Pods.Len() != 0 {
		t.Errorf("%d pods are published; want none", r.store.Pods.Len())
	}
	r.run(time.Hour)
	r.wantCalls()
}

// TestWhatNeedsNoReplacement: the runtime is not told of these.
func TestWhatNeedsNoReplacement(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	r.calls()
	changed := web()
	changed.Restart, changed.StopGrace = OnFailure, time.Minute
	changed.Containers[0].Probe = &Probe{Kind: ProbeTCP, Target: ":80", Period: time.Second, Timeout: time.Second, Threshold: 3}
	r.configure(changed)
	r.run(5 * time.Second)
	r.wantCalls()
	if len(r.checks) == 0 || r.checks[0] != ":80 at 10.88.0.2" {
		t.Errorf("probes asked %q; want :80 at 10.88.0.2", r.checks)
	}
}

func TestHashTellsSpecsApart(t *testing.T) {
	seen := map[string]int{}
	specs := []Pod{web()}
	for _, change := range []func(*Pod){
		func(p *Pod) { p.HostNetwork = true },
		func(p *Pod) { p.Ports = []hal.PortMapping{{HostPort: 80, ContainerPort: 80}} },
		func(p *Pod) { p.Ports = []hal.PortMapping{{HostPort: 80, ContainerPort: 80, UDP: true}} },
		func(p *Pod) { p.Containers[0].Command = []string{"a", "b"} },
		func(p *Pod) { p.Containers[0].Command = []string{"ab"} },
		func(p *Pod) { p.Containers[0].Args = []string{"a", "b"} },
		func(p *Pod) { p.Containers[0].Env = []hal.EnvVar{{Name: "a", Value: "b"}} },
		func(p *Pod) { p.Containers[0].Mounts = []hal.BindMount{{Source: "/var/a", Target: "/a"}} },
		func(p *Pod) { p.Containers[0].MemoryMax = 1 << 20 },
		func(p *Pod) { p.Containers[0].CPUWeight = 7 },
		func(p *Pod) { p.Containers[0].UID = 7 },
		func(p *Pod) { p.Containers[0].Privileged = true },
		func(p *Pod) { p.Containers[0].ReadOnlyRoot = true },
		func(p *Pod) { p.Containers = append(p.Containers, p.Containers[0]) },
	} {
		p := web()
		change(&p)
		specs = append(specs, p)
	}
	for i := range specs {
		h := specs[i].Hash()
		if other, ok := seen[h]; ok {
			t.Errorf("specs %d and %d have the hash %s", other, i, h)
		}
		seen[h] = i
	}
}

func TestRestartPolicies(t *testing.T) {
	for _, c := range []struct {
		policy  Restart
		code    int32
		phase   string
		message string
		again   bool
	}{
		{Always, 0, "CrashLoopBackOff", "web exited with code 0; starting again", true},
		{Always, 3, "CrashLoopBackOff", "web exited with code 3; starting again", true},
		{OnFailure, 3, "CrashLoopBackOff", "web exited with code 3; starting again", true},
		{OnFailure, 0, "Succeeded", "", false},
		{Never, 137, "Failed", "web was ended by signal 9 (OOMKilled)", false},
	} {
		pod := web()
		pod.Restart = c.policy
		r := newRig(t, pod)
		r.run(5 * time.Second)
		reason := ""
		if c.code == 137 {
			reason = "OOMKilled"
		}
		r.cri.Crash("web", "web", c.code, reason)
		r.run(500 * time.Millisecond)
		r.want("web", c.phase, c.message, 0)
		r.run(time.Minute)
		if c.again {
			r.want("web", "Running", "", 1)
		} else {
			r.want("web", c.phase, c.message, 0)
		}
	}
}

// TestCrashLoopSlowsDown counts the starts of a container that ends at once.
func TestCrashLoopSlowsDown(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	for range 3600 {
		r.cri.Crash("web", "web", 1, "")
		r.run(time.Second)
	}
	restarts := r.pod("web").Restarts
	// 1, 2, 4, ... 32 s, then each minute.
	if restarts < 50 || restarts > 70 {
		t.Errorf("%d restarts in an hour; want about 64", restarts)
	}
	// The earlier containers are gone.
	_, containers, _ := r.cri.Pods()
	if len(containers) > 2 {
		t.Errorf("%d containers are left; want the last one", len(containers))
	}
	r.run(10 * time.Minute) // stable
	r.cri.Crash("web", "web", 1, "")
	r.run(1500 * time.Millisecond)
	if got := r.pod("web").Restarts; got != restarts+1 && got != restarts+2 {
		t.Errorf("%d restarts soon after the end of a stable container; want one more than %d", got, restarts)
	}
}

// TestReboot: the runtime has all the pods and none of them runs.
func TestReboot(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	r.calls()
	r.cri.Reboot()
	r.start()
	r.run(5 * time.Second)
	r.wantCalls("stop web-1", "remove web-1", "run web", "create web/web#0")
	r.want("web", "Running", "", 0)
}

// TestOthersAreLeftAlone: what somebody else runs on the same runtime.
func TestOthersAreLeftAlone(t *testing.T) {
	r := newRig(t)
	r.cri.RunPod(hal.SandboxSpec{Name: ""})
	r.calls()
	r.run(10 * time.Minute)
	r.wantCalls()
}

func TestHalfMadePodIsFinished(t *testing.T) {
	for _, method := range []string{"RunPod", "CreateContainer", "StartContainer", "PullImage", "Pods", "Image"} {
		r := newRig(t, web())
		r.cri.Fail(method, 1, hal.ErrNoSpace)
		r.run(500 * time.Millisecond)
		if method != "Pods" {
			if got := r.pod("web").Message; got != hal.ErrNoSpace.Error() {
				t.Errorf("after %s has failed the message is %q; want %q", method, got, hal.ErrNoSpace)
			}
		}
		r.run(10 * time.Second)
		if p := r.pod("web"); p.Phase != "Running" || p.Message != "" {
			t.Errorf("%s failed once: the pod is %s, %q; want Running", method, p.Phase, p.Message)
		}
		sandboxes, containers, _ := r.cri.Pods()
		if len(sandboxes) != 1 || len(containers) != 1 {
			t.Errorf("%s failed once: %d sandboxes, %d containers are left; want one each", method, len(sandboxes), len(containers))
		}
	}
}

func TestRuntimeThatGoes(t *testing.T) {
	r := newRig(t, web())
	r.run(5 * time.Second)
	r.calls()
	r.service("Waiting")
	r.cri.Down = true
	r.run(time.Second)
	r.want("web", "Unknown", "waiting for the container runtime", 0)
	if s := r.runtime(); s.Ready || s.NetworkReady || s.Message != "its service is Waiting" {
		t.Errorf("the runtime's status is %+v; want not ready, since its service waits", s)
	}
	r.cri.Down = false
	r.service("Running")
	r.run(5 * time.Second)
	r.want("web", "Running", "", 0)
	r.wantCalls() // the pod has survived
}

// TestStuckRuntime: one that is stopped by a signal runs, and answers nothing.
func TestStuckRuntime(t *testing.T) {
	r := newRig(t, web())
	r.run(time.Minute)
	r.jobs.Stuck = true
	r.run(2*pollEvery + time.Millisecond)
	if s := r.runtime(); s.Ready || s.Message != "it does not answer" {
		t.Errorf("after two periods the status is %+v; want not ready", s)
	}
	r.want("web", "Unknown", "waiting for the container runtime", 0)
	r.jobs.Heal()
	r.run(pollEvery)
	if s := r.runtime(); !s.Ready || s.Message != "" {
		t.Errorf("the status of a runtime that answers again is %+v", s)
	}
	r.want("web", "Running", "", 0)
}

// TestCalmRuntime: one that has been ready for long is asked less often, and found
// out within two of the longer periods.
func TestCalmRuntime(t *testing.T) {
	r := newRig(t)
	r.run(time.Hour)
	before := r.jobs.Started()
	r.run(time.Hour)
	// The disk is looked at each five minutes.
	if asked := r.jobs.Started() - before - int(time.Hour/collectEvery); asked < 110 || asked > 190 {
		t.Errorf("asked %d times in an hour of calm; want about 120, and the looks at the pods", asked)
	}
	r.jobs.Stuck = true
	r.run(2 * pollCalm)
	if r.runtime().Ready {
		t.Error("after two periods a stuck runtime is still ready")
	}
	r.jobs.Heal()
	r.run(pollEvery)
	if !r.runtime().Ready {
		t.Error("a runtime that answers again is not ready")
	}
}

// TestLateAnswer: what a process has said that has ended since does not count.
func TestLateAnswer(t *testing.T) {
	r := newRig(t)
	r.jobs.Delay = int64(2 * time.Second)
	r.run(time.Second)
	r.service("Waiting")
	r.run(500 * time.Millisecond)
	r.cri.State.Ready = false
	r.cri.State.Message = "starting"
	r.service("Running")
	for range 50 {
		r.run(100 * time.Millisecond)
		if r.runtime().Ready {
			t.Fatal("the answer of an earlier process makes the runtime ready")
		}
	}
}

func TestNetworkNotReady(t *testing.T) {
	host := web()
	host.Name, host.HostNetwork = "host", true
	r := newRig(t, web(), host)
	r.cri.State.NetworkReady = false
	r.run(5 * time.Second)
	r.want("web", "Pending", "waiting for the runtime's network", 0)
	r.want("host", "Running", "", 0)
	r.cri.State.NetworkReady = true
	r.run(5 * time.Second)
	r.want("web", "Running", "", 0)
}

func TestCredentialsGoToTheirRegistryAlone(t *testing.T) {
	pod := web()
	pod.Containers[0].Image = "registry.example:5000/web:1"
	r := newRig(t, pod)
	r.settings.Registries = []Registry{{Host: "registry.example:5000", Auth: hal.Auth{Username: "u", Password: "p"}}}
	r.cri.Registry = append(r.cri.Registry, fake.Source{Ref: "registry.example:5000/web:1", Image: image("sha256:w", "registry.example:5000/web:1")})
	r.run(5 * time.Second)
	if r.cri.Signed.Username != "u" {
		t.Errorf("pulled with %+v; want the registry's user", r.cri.Signed)
	}
	for ref, want := range map[string]string{
		"web:1": "docker.io", "a/b": "docker.io", "ghcr.io/a/b": "ghcr.io", "localhost/a": "localhost", "host:5000/a@sha256:0": "host:5000",
	} {
		if got := RegistryOf(ref); got != want {
			t.Errorf("RegistryOf(%q) = %q; want %q", ref, got, want)
		}
	}
}

// TestProbe follows a container that gets well, and then fails.
func TestProbe(t *testing.T) {
	pod := web()
	pod.Restart = OnFailure // a container that is ended for its probe counts as failed
	pod.Containers[0].Probe = &Probe{Kind: ProbeHTTP, Target: "http://:80/", Period: 10 * time.Second, Timeout: time.Second, Threshold: 3}
	r := newRig(t, pod)
	r.checkErr = hal.Error("connection refused")
	r.run(5 * time.Minute)
	if p := r.pod("web"); p.Ready || p.Restarts != 0 || !strings.Contains(p.Message, "web is not ready: connection refused") {
		t.Errorf("a container that has never been well: %+v; want not ready, and no restart", p)
	}
	r.checkErr = nil
	r.run(11 * time.Second)
	if p := r.pod("web"); !p.Ready || p.Message != "" {
		t.Errorf("a container that is well: %+v; want ready", p)
	}
	r.checkErr = hal.Error("connection refused")
	r.run(15 * time.Second)
	if p := r.pod("web"); p.Restarts != 0 || !p.Ready {
		t.Errorf("after too few failures: %+v; want it left alone", p)
	}
	r.run(20 * time.Second)
	if p := r.pod("web"); p.Restarts != 1 || p.Ready {
		t.Errorf("after three failures: %+v; want one restart, and not ready", p)
	}
}

func TestManyPodsAtATime(t *testing.T) {
	var pods []Pod
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		p := web()
		p.Name = name
		pods = append(pods, p)
	}
	r := newRig(t, pods...)
	r.jobs.Delay = int64(time.Second)
	r.run(time.Minute)
	for _, p := range pods {
		r.want(p.Name, "Running", "", 0)
	}
	if all := r.failures(); len(all) > 0 {
		t.Errorf("controllers fail: %q", all)
	}
}

// TestRandomWorld has all go wrong, then lets it be, and expects what was asked.
func TestRandomWorld(t *testing.T) {
	for seed := range uint64(300) {
		randomWorld(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
