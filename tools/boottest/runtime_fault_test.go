package boottest

import (
	"slices"
	"strings"
)

// What is taken from a node with containers, and what it makes of that.

func (r *runtimeTest) crashLoop() {
	r.eventually("crash loop", func() (bool, any) {
		s := r.services()["crasher"]
		return s.GetRestarts() >= 3, s
	})
	s := r.services()["crasher"]
	if s.GetLastExit() != "exited with code 3" || !slices.Contains(s.GetLastOutput(), "failing with 3") || s.GetHealthy() {
		r.t.Errorf("the service that crashes is %v; want its exit code and its last words", s)
	}
	if out := r.ctl(r.t, "", "logs", "crasher", "--tail", "2"); !strings.Contains(out, "failing with 3") {
		r.t.Errorf("its log is %q; want its last words", out)
	}
	r.ctl(r.t, "", "service", "stop", "crasher")
	if s := r.services()["crasher"]; s.GetState() != "Finished" {
		r.t.Errorf("after it was stopped the service is %v", s)
	}
}

// survived checks that the pods are the same as before.
func (r *runtimeTest) survived(before map[string]map[string]string) {
	r.t.Helper()
	after := r.pods()
	for _, name := range []string{"host", "bridge"} {
		if after[name]["container_id"] != before[name]["container_id"] || after[name]["restarts"] != "0" {
			r.t.Errorf("pod %s is %v after the runtime's restart; want the same as before: %v", name, after[name], before[name])
		}
	}
}

func (r *runtimeTest) killed() {
	before, restarts := r.pods(), r.services()["containerd"].GetRestarts()
	r.agent.do("signal containerd 9")
	r.eventually("new start of containerd", func() (bool, any) {
		s := r.services()["containerd"]
		return s.GetRestarts() > restarts && s.GetHealthy(), s
	})
	if s := r.services()["containerd"]; !strings.HasPrefix(s.GetLastExit(), "was ended by signal 9") {
		r.t.Errorf("containerd's last exit is %q; want signal 9", s.GetLastExit())
	}
	r.survived(before)
	if got := r.agent.do("fetch http://10.0.2.15:8080/"); got != "guest on bridge, bridge\n" {
		r.t.Errorf("after containerd was killed the pod answers %q", got)
	}
}

func (r *runtimeTest) stuck() {
	before, restarts := r.pods(), r.services()["containerd"].GetRestarts()
	r.agent.do("signal containerd 19")
	r.ready(false)
	r.eventually("payload that is told", func() (bool, any) {
		s := r.services()["gated"]
		return s.GetState() == "Running" && strings.Contains(s.GetMessage(), "containerd"), s
	})
	r.eventually("new start of the stuck containerd", func() (bool, any) {
		s := r.services()["containerd"]
		return s.GetRestarts() > restarts && s.GetHealthy(), s
	})
	r.survived(before)
}

// outOfMemory has a service take all the memory there is: it has to be ended for
// it, and nobody else.
func (r *runtimeTest) outOfMemory() {
	before, restarts := r.pods(), r.services()["containerd"].GetRestarts()
	r.agent.letEat(true)
	r.eventually("end of the service that takes all memory", func() (bool, any) {
		s := r.services()["eater"]
		return s.GetState() == "Failed", s
	})
	r.agent.letEat(false) // not after the reboot again
	s := r.services()["eater"]
	if !strings.Contains(s.GetMessage(), "memory") {
		r.t.Errorf("the service is %v; want that it was killed for want of memory", s)
	}
	if r.node.Board.Arch == "arm64" && s.GetOomKills() == 0 { // the other kernel does not count
		r.t.Errorf("the service is %v; want its kills counted", s)
	}
	// While all memory is gone it may be late with an answer.
	r.eventually("containerd that answers", func() (bool, any) {
		c := r.services()["containerd"]
		return c.GetHealthy(), c
	})
	if c := r.services()["containerd"]; c.GetRestarts() != restarts {
		r.t.Errorf("containerd is %v; want it left alone", c)
	}
	r.survived(before)
}

// damaged has containerd's database damaged: that is told, nothing is thrown away
// without being asked for, and all comes back once it is.
func (r *runtimeTest) damaged() {
	before := r.pods()
	r.agent.do("damage /var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db")
	r.agent.do("signal containerd 9")
	r.eventually("report of the damage", func() (bool, any) {
		s := r.services()["containerd"]
		return strings.Contains(s.GetMessage(), "database is damaged") && strings.Contains(s.GetMessage(), "runtime reset"), s
	})
	r.eventually("RuntimeStatus that is not ready for it", func() (bool, any) {
		s := r.get(r.t, "RuntimeStatus")["containerd"]
		return s["ready"] == "false" && strings.Contains(s["message"], "damaged"), s
	})
	if got := r.agent.do("exists /var/lib/containerd.damaged"); got != "false" {
		r.t.Error("what containerd has kept was moved aside without being asked for")
	}
	r.ctl(r.t, "runtime reset requested\n", "runtime", "reset", "--yes")
	r.ready(true)
	for _, name := range []string{"host", "bridge"} {
		r.eventually("new pod "+name+" after the reset", func() (bool, any) {
			pod := r.get(r.t, "PodStatus")[name]
			return pod["ready"] == "true" && pod["container_id"] != before[name]["container_id"], pod
		})
	}
	if got := r.agent.do("exists /var/lib/containerd.damaged"); got != "true" {
		r.t.Error("nothing was moved aside")
	}
	if got := r.agent.do("read /var/data/bridge/file"); got != "written\n" {
		r.t.Errorf("after the reset the file of the pod's mount is %q", got)
	}
}
