package runtime

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"machined/hal"
)

// randomWorld changes the config, ends containers, restarts runtime and node,
// and makes calls fail. After that all has to be as the last config says.
func randomWorld(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t)
	r.jobs.Delays = func(int) int64 { return random.Int64N(int64(3 * time.Second)) }
	methods := []string{"Pods", "RunPod", "StopPod", "RemovePod", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "Image", "PullImage", "Status"}
	for range 40 {
		switch random.IntN(7) {
		case 0:
			r.configure(randomPods(random)...)
		case 1:
			r.cri.Fail(methods[random.IntN(len(methods))], 1+random.IntN(3), hal.ErrNoSpace)
		case 2:
			r.cri.Crash("p"+strconv.Itoa(random.IntN(3)), "c", int32(random.IntN(3)), "")
		case 3:
			r.cri.Reboot()
			r.start()
		case 4:
			r.service("Waiting")
			r.cri.Down = true
			r.run(time.Duration(random.Int64N(int64(5 * time.Second))))
			r.cri.Down = false
			r.service("Running")
		case 5:
			r.cri.State.NetworkReady = random.IntN(3) > 0
		case 6:
			r.start()
		}
		r.run(time.Duration(random.Int64N(int64(20 * time.Second))))
	}
	r.cri.State.NetworkReady = true
	for _, m := range methods {
		r.cri.Heal(m)
	}
	last := randomPods(random)
	r.configure(last...)
	r.run(10 * time.Minute)
	sandboxes, containers, _ := r.cri.Pods()
	if len(sandboxes) != len(last) || len(containers) != len(last) {
		t.Errorf("%d sandboxes and %d containers for %d pods", len(sandboxes), len(containers), len(last))
	}
	for _, p := range last {
		if s := r.pod(p.Name); s.Phase != "Running" || s.Message != "" {
			t.Errorf("pod %s is %s, %q; want Running", p.Name, s.Phase, s.Message)
		}
	}
	for _, s := range sandboxes {
		for i := range last {
			if last[i].Name == s.Name && last[i].Hash() != s.Hash {
				t.Errorf("pod %s has the hash %s; want %s", s.Name, s.Hash, last[i].Hash())
			}
		}
	}
	r.calls()
	r.run(time.Hour)
	r.wantCalls()
	if all := r.failures(); len(all) > 0 {
		t.Errorf("controllers fail: %q", all)
	}
}

func randomPods(random *rand.Rand) []Pod {
	var pods []Pod
	for i := range 3 {
		if random.IntN(3) == 0 {
			continue
		}
		p := Pod{Name: "p" + strconv.Itoa(i), Restart: Always, HostNetwork: random.IntN(2) == 0, StopGrace: time.Second}
		c := Container{ContainerSpec: hal.ContainerSpec{Name: "c", Image: "web:1"}}
		if random.IntN(2) == 0 {
			c.Args = []string{"x"}
		}
		p.Containers = []Container{c}
		pods = append(pods, p)
	}
	return pods
}
