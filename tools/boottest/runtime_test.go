package boottest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"machined/api/machinepb"
	"machined/board"
	"machined/tools/lab"
)

// runtimeConfig has a service for each promise that is tested, and a pod on
// either network.
const runtimeConfig = `machine:
  hostname: node-1
  services:
    - {id: agent, command: [%[1]s, agent, %[2]q], restart: always, gates: [network]}
    - id: gated
      command: [%[1]s, serve, "127.0.0.1:7070"]
      depends_on: [containerd]
      user: 1000:1000
      probe: {http: "http://127.0.0.1:7070/", period_secs: 2}
    - {id: crasher, command: [%[1]s, crash, "3"], restart: always}
    - {id: eater, command: [%[1]s, eat, %[2]q], restart: never}
    - {id: conformance, command: [%[1]s, once, /var/conformance, /boot/programs/conformance, -test.run, ^TestCRIGuest$, -test.v], restart: never, depends_on: [containerd]}
  pods:
    - name: host
      image: %[3]s
      args: [serve, ":9090"]
      host_network: true
      env: {GREETING: host}
    - name: bridge
      image: %[3]s
      args: [serve, ":80"]
      env: {GREETING: bridge}
      ports: [{host: 8080, container: 80}]
      mounts: [{source: /var/data/bridge, target: /data}]
      limits: {pids_max: 64}
      probe: {http: "http://127.0.0.1:80/", period_secs: 2}
    - name: pulled
      restart: on_failure
      containers:
        - {name: ends, image: "registry.test/guest:1", args: [nothing]}
        - {name: waits, image: "registry.test/guest:1", args: [wait], probe: {exec: [/guest, nothing], period_secs: 5}}
  runtime:
    registries:
      - {host: registry.test, mirrors: [%[2]q], username: board, password: open sesame}
`

// TestRuntime runs containers on a node, and takes away from it what it stands
// on: its runtime is killed, stopped and starved of memory, and the node
// restarted.
func TestRuntime(t *testing.T) {
	for _, name := range []string{"rpi-3a-plus", "x86_64-uefi"} {
		t.Run(name, func(t *testing.T) {
			b, _ := board.ByName(name)
			only(t, b)
			t.Parallel() // each machine is emulated by one thread
			r := newRuntime(t, b)
			r.step("ready", r.becomesReady)
			r.step("gated payload", r.gated)
			r.step("pods answer each other", r.podsAnswer)
			r.step("pod of an image that is pulled", r.pulled)
			r.step("conformance of the driver", r.conformance)
			r.step("crash loop", r.crashLoop)
			r.step("kill -9 of containerd", r.killed)
			r.step("SIGSTOP of containerd", r.stuck)
			r.step("out of memory", r.outOfMemory)
			r.step("damaged database", r.damaged)
			r.step("pods over a reboot", r.rebooted)
			r.step("shutdown in order", r.shutdown)
		})
	}
}

// runtimeTest is a node with containers.
type runtimeTest struct {
	*machine
	t        *testing.T
	agent    *agent
	registry *registry
}

func newRuntime(t *testing.T, b board.Board) *runtimeTest {
	t.Helper()
	program, image, err := lab.Guest(t.TempDir(), b)
	if err != nil {
		t.Fatal(err)
	}
	r := &runtimeTest{t: t, agent: newAgent(t), registry: newRegistry(t, image, "board", "open sesame")}
	r.agent.mux.Handle("/v2/", r.registry)
	n := build(t, lab.Options{
		Board: b, Config: fmt.Appendf(nil, runtimeConfig, lab.GuestProgram, r.agent.url, lab.GuestImage),
		Containers: []string{image}, Programs: map[string]string{"guest": program, "conformance": conformanceProgram(t, b)},
	})
	r.machine = start(t, n, nil)
	r.waitAPI(t, "")
	return r
}

// conformanceProgram is the suite of the CRI's driver, to be run on a node.
func conformanceProgram(t *testing.T, b board.Board) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "conformance")
	cmd := exec.Command("go", "test", "-c", "-tags", "guest", "-ldflags", "-s -w", "-o", program, "machined/hal/linux")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+b.Arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the conformance suite: %v\n%s", err, out)
	}
	return program
}

// step runs a part, which ends the test when it fails: the next ones stand on
// it.
func (r *runtimeTest) step(name string, part func()) {
	r.t.Helper()
	begun := time.Now()
	part()
	r.t.Logf("%s: %s", name, time.Since(begun).Round(100*time.Millisecond))
}

// eventually waits for a fact; said tells what is there instead.
func (r *runtimeTest) eventually(what string, fact func() (ok bool, said any)) {
	r.t.Helper()
	var said any
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		var ok bool
		if ok, said = fact(); ok {
			return
		}
	}
	r.t.Fatalf("no %s; there is %v", what, said)
}

func (r *runtimeTest) services() map[string]*machinepb.ServiceInfo {
	r.t.Helper()
	c, err := lab.Dial(r.vm, r.bundle)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	var list []*machinepb.ServiceInfo
	r.patiently(func() (err error) {
		list, err = c.Services(context.Background())
		return err
	})
	all := make(map[string]*machinepb.ServiceInfo)
	for _, s := range list {
		all[s.GetId()] = s
	}
	return all
}

// get is that of the machine, with patience.
func (r *runtimeTest) get(t *testing.T, kind string) (all map[string]map[string]string) {
	t.Helper()
	r.patiently(func() (err error) {
		all, err = r.list(kind)
		return err
	})
	return all
}

// patiently asks again when a call fails. A machine whose memory has run out, and
// whose kernel has not yet ended anybody for it, is slow; so is one that starts
// several containers under emulation.
func (r *runtimeTest) patiently(call func() error) {
	r.t.Helper()
	err := call()
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); err = call() {
		time.Sleep(time.Second)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *runtimeTest) ready(want bool) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("runtime with ready=%v", want), func() (bool, any) {
		s := r.get(r.t, "RuntimeStatus")["containerd"]
		return s["ready"] == strconv.FormatBool(want), s
	})
}

func (r *runtimeTest) becomesReady() {
	r.ready(true)
	s := r.get(r.t, "RuntimeStatus")["containerd"]
	if s["network_ready"] != "true" || s["version"] == "" || s["message"] != "" {
		r.t.Errorf("RuntimeStatus = %v; want the network ready, a version and no complaint", s)
	}
}

// began is when a service first was in a state, and healthy if that is asked.
func began(s *machinepb.ServiceInfo, state string) int64 {
	i := slices.IndexFunc(s.GetEvents(), func(e *machinepb.ServiceEvent) bool { return e.GetState() == state })
	if i < 0 {
		return 0
	}
	return s.GetEvents()[i].GetTimeUnixNanos()
}

// gated is the founding example: the payload starts when the runtime is ready,
// and not before.
func (r *runtimeTest) gated() {
	r.eventually("healthy payload", func() (bool, any) {
		s := r.services()["gated"]
		return s.GetHealthy(), s
	})
	all := r.services()
	payload, runtime := began(all["gated"], "Starting"), began(all["containerd"], "Running")
	waited := slices.ContainsFunc(all["gated"].GetEvents(), func(e *machinepb.ServiceEvent) bool {
		return e.GetState() == "Waiting" && strings.Contains(e.GetReason(), "containerd")
	})
	if payload == 0 || runtime == 0 || payload < runtime || !waited {
		r.t.Errorf("the payload's changes are %v and containerd's %v; want it to wait for containerd, and to start after it",
			all["gated"].GetEvents(), all["containerd"].GetEvents())
	}
}

// pods waits until both run, and returns their statuses.
func (r *runtimeTest) pods() map[string]map[string]string {
	r.t.Helper()
	var pods map[string]map[string]string
	r.eventually("two pods that are ready", func() (bool, any) {
		pods = r.get(r.t, "PodStatus")
		return pods["host"]["ready"] == "true" && pods["bridge"]["ready"] == "true", pods
	})
	return pods
}

func (r *runtimeTest) podsAnswer() {
	pods := r.pods()
	ip := pods["bridge"]["pod_ip"]
	if !strings.HasPrefix(ip, "10.88.0.") || pods["host"]["pod_ip"] != "" {
		r.t.Errorf("the pods' addresses are %q and %q; want one of 10.88.0.0/16, and none", ip, pods["host"]["pod_ip"])
	}
	for _, tt := range []struct{ from, want string }{
		{"http://127.0.0.1:9090/", "guest on node-1, host\n"},                               // the node to the pod on its network
		{"http://" + ip + "/", "guest on bridge, bridge\n"},                                 // the node to the pod on the bridge
		{"http://10.0.2.15:8080/", "guest on bridge, bridge\n"},                             // by the port that is forwarded
		{"http://127.0.0.1:9090/fetch?url=http://" + ip + "/", "guest on bridge, bridge\n"}, // pod to pod
		{"http://" + ip + "/fetch?url=http://10.88.0.1:9090/", "guest on node-1, host\n"},   // and back
		{"http://" + ip + "/fetch?url=" + r.agent.url + "/eat", ""},                         // from the bridge to the world
	} {
		if got := r.agent.do("fetch %s", tt.from); got != tt.want {
			r.t.Errorf("%s answers %q; want %q", tt.from, got, tt.want)
		}
	}
	r.agent.do("fetch http://%s/write?path=/data/file", ip)
	if got := r.agent.do("read /var/data/bridge/file"); got != "written\n" {
		r.t.Errorf("the file that the pod has written to its mount is %q on the node", got)
	}
	if out := r.ctl(r.t, "", "logs", "pod/bridge/bridge", "--tail", "5"); !strings.Contains(out, "stdout serving on :80") {
		r.t.Errorf("the pod's log is %q; want its line", out)
	}
}

// pulled checks the pod whose image comes from a registry's mirror, with a
// password, and that nobody gets to see that.
func (r *runtimeTest) pulled() {
	var pod map[string]string
	r.eventually("pod of the registry's image", func() (bool, any) {
		pod = r.get(r.t, "PodStatus")["pulled"]
		return pod["phase"] == "Running", pod
	})
	if r.registry.pulls.Load() == 0 {
		r.t.Error("the pod runs, and its image was not pulled")
	}
	r.eventually("pod that is ready by its exec probe", func() (bool, any) {
		pod = r.get(r.t, "PodStatus")["pulled"]
		// One of its containers has ended, as it was told to.
		return !strings.Contains(pod["message"], "not ready"), pod
	})
	for _, args := range [][]string{{"get", "machineconfig"}, {"logs", "machined"}, {"logs", "containerd"}, {"get", "pods"}} {
		if strings.Contains(r.ctl(r.t, "", args...), "sesame") {
			r.t.Errorf("machinectl %q shows the registry's password", args)
		}
	}
}

// conformance waits for the suite that runs on the node.
func (r *runtimeTest) conformance() {
	r.eventually("end of the conformance suite", func() (bool, any) {
		s := r.services()["conformance"]
		return s.GetState() == "Finished" || s.GetState() == "Failed", s
	})
	out := r.ctl(r.t, "", "logs", "conformance")
	if s := r.services()["conformance"]; s.GetState() != "Finished" || !strings.Contains(out, "--- PASS: TestCRIGuest") {
		r.t.Errorf("the conformance suite is %v:\n%s", s, out)
	}
}

func (r *runtimeTest) rebooted() {
	before := r.pods()
	v := r.waitAPI(r.t, "")
	r.ctl(r.t, "reboot requested\n", "reboot")
	r.waitAPI(r.t, v.GetBootId())
	r.ready(true)
	for _, name := range []string{"host", "bridge"} {
		r.eventually("new pod "+name+" after the reboot", func() (bool, any) {
			pod := r.get(r.t, "PodStatus")[name]
			return pod["ready"] == "true" && pod["container_id"] != before[name]["container_id"], pod
		})
	}
	if got := r.agent.do("read /var/data/bridge/file"); got != "written\n" {
		r.t.Errorf("after a reboot the file of the pod's mount is %q", got)
	}
}

// shutdown checks the order in which all end, and what they leave.
func (r *runtimeTest) shutdown() {
	changes := make(chan []string, 1)
	go func() { changes <- r.watchServices() }()
	time.Sleep(2 * time.Second) // the watch is there
	r.ctl(r.t, "shutdown requested\n", "shutdown")
	r.waitOff(r.t)
	got := <-changes
	// What is published at once comes in the order of the services.
	for _, order := range [][2]string{{"gated Stopping", "containerd Stopping"}, {"gated Finished", "containerd Finished"}} {
		if first, then := slices.Index(got, order[0]), slices.Index(got, order[1]); first < 0 || then < first {
			r.t.Errorf("the services went through %q; want %q before %q", got, order[0], order[1])
		}
	}
	text := r.printed()
	if strings.Contains(text[max(strings.LastIndex(text, "Going down"), 0):], "in use") {
		r.t.Error("something was in use when it was unmounted")
	}
	checkDisk(r.t, r.node)
}

// watchServices notes the states of services until the node is gone.
func (r *runtimeTest) watchServices() (changes []string) {
	c, err := lab.Dial(r.vm, r.bundle)
	if err != nil {
		return nil
	}
	defer c.Close()
	_ = c.Watch(context.Background(), "ServiceStatus", "", func(e *machinepb.WatchEvent) error {
		if e.GetOp() != machinepb.WatchEvent_UPDATED {
			return nil
		}
		for _, f := range e.GetEntry().GetFields() {
			if f.GetKey() == "state" {
				changes = append(changes, e.GetEntry().GetId()+" "+f.GetValue())
			}
		}
		return nil
	}, func(error, time.Duration) { c.Close() })
	return changes
}
