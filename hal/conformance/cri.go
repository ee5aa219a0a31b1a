package conformance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"machined/hal"
)

// CRIRig is a container runtime that is ready.
type CRIRig struct {
	CRI hal.CRI
	// Image is the reference of an image that is there. Run runs until it is
	// asked to end, then exits with 0; Fail exits with 3 at once; Ask exits with
	// 0 and AskFails with 1, in a container that runs.
	Image                    string
	Run, Fail, Ask, AskFails []string
	// Dir is a directory of the node for logs and mounts.
	Dir string
	// Eventually lets time pass until done, or fails the test.
	Eventually func(t *testing.T, what string, done func() bool)
}

// CRI checks a driver of hal.CRI.
func CRI(t *testing.T, rig CRIRig) {
	t.Run("Status", func(t *testing.T) {
		s, err := rig.CRI.Status()
		if err != nil || !s.Ready || s.Name != "containerd" || s.Version == "" {
			t.Errorf("Status = %+v, %v; want containerd, ready, with a version", s, err)
		}
		if size, free, err := rig.CRI.Usage(); err != nil || size == 0 || free > size {
			t.Errorf("Usage = %d, %d, %v", size, free, err)
		}
	})
	t.Run("Images", func(t *testing.T) { criImages(t, rig) })
	t.Run("NothingThere", func(t *testing.T) { criNothing(t, rig) })
	t.Run("Life", func(t *testing.T) { criLife(t, rig) })
	t.Run("Ends", func(t *testing.T) { criEnds(t, rig) })
	t.Run("NameIsTaken", func(t *testing.T) {
		spec := rig.sandbox("taken")
		id := rig.runPod(t, spec)
		if _, err := rig.CRI.RunPod(spec); err == nil {
			t.Error("a second pod of one name is run")
		}
		rig.removePod(t, id)
	})
}

func (rig CRIRig) sandbox(name string) hal.SandboxSpec {
	return hal.SandboxSpec{Name: name, Hash: "h-" + name, HostNetwork: true, LogDir: rig.Dir + "/" + name}
}

func (rig CRIRig) runPod(t *testing.T, s hal.SandboxSpec) string {
	t.Helper()
	id, err := rig.CRI.RunPod(s)
	if err != nil || id == "" {
		t.Fatalf("RunPod(%s) = %q, %v", s.Name, id, err)
	}
	t.Cleanup(func() { _, _ = rig.CRI.StopPod(id), rig.CRI.RemovePod(id) })
	return id
}

func (rig CRIRig) removePod(t *testing.T, id string) {
	t.Helper()
	// Twice each: what is not there is no error.
	for range 2 {
		if err := rig.CRI.StopPod(id); err != nil {
			t.Errorf("StopPod = %v", err)
		}
	}
	for range 2 {
		if err := rig.CRI.RemovePod(id); err != nil {
			t.Errorf("RemovePod = %v", err)
		}
	}
	pods, containers, err := rig.CRI.Pods()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if p.ID == id {
			t.Errorf("Pods has %+v after RemovePod", p)
		}
	}
	for _, c := range containers {
		if c.Sandbox == id {
			t.Errorf("Pods has %+v after RemovePod of its pod", c)
		}
	}
}

func criImages(t *testing.T, rig CRIRig) {
	i, err := rig.CRI.Image(rig.Image)
	if err != nil || i.ID == "" {
		t.Fatalf("Image(%s) = %+v, %v", rig.Image, i, err)
	}
	if same, err := rig.CRI.Image(i.ID); err != nil || same.ID != i.ID {
		t.Errorf("Image by id = %+v, %v; want %s", same, err, i.ID)
	}
	if _, err := rig.CRI.Image("machined.invalid/none:1"); !errors.Is(err, hal.ErrNotFound) {
		t.Errorf("Image of one that is not there = %v; want ErrNotFound", err)
	}
	all, err := rig.CRI.Images()
	found := false
	for _, other := range all {
		found = found || other.ID == i.ID
	}
	if err != nil || !found {
		t.Errorf("Images = %+v, %v; want %s among them", all, err, i.ID)
	}
	if _, err := rig.CRI.PullImage("machined.invalid/none:1", hal.Auth{}); err == nil {
		t.Error("an image of a registry that is not there is pulled")
	} else if !strings.Contains(err.Error(), "machined.invalid/none:1") && !errors.Is(err, hal.ErrNotFound) {
		t.Errorf("PullImage = %v; want the image's name in it", err)
	}
	if err := rig.CRI.Import(rig.Dir + "/none.tar"); err == nil {
		t.Error("a file that is not there is imported")
	}
}

// criNothing: what is not there cannot be removed, which is no error.
func criNothing(t *testing.T, rig CRIRig) {
	for what, err := range map[string]error{
		"StopPod": rig.CRI.StopPod("none"), "RemovePod": rig.CRI.RemovePod("none"), "StopContainer": rig.CRI.StopContainer("none", 1),
		"RemoveContainer": rig.CRI.RemoveContainer("none"), "RemoveImage": rig.CRI.RemoveImage("sha256:0000000000000000000000000000000000000000000000000000000000000000"),
	} {
		if err != nil {
			t.Errorf("%s of one that is not there = %v; want nil", what, err)
		}
	}
	if err := rig.CRI.StartContainer("none"); err == nil {
		t.Error("a container that is not there is started")
	}
	if _, err := rig.CRI.Exec("none", rig.Ask, 5); err == nil {
		t.Error("a command runs in a container that is not there")
	}
}

func (rig CRIRig) container(t *testing.T, id string) hal.Container {
	t.Helper()
	_, all, err := rig.CRI.Pods()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.ID == id {
			return c
		}
	}
	return hal.Container{}
}

func (rig CRIRig) create(t *testing.T, pod string, s hal.SandboxSpec, name string, attempt uint32, args []string) string {
	t.Helper()
	i, err := rig.CRI.Image(rig.Image)
	if err != nil {
		t.Fatal(err)
	}
	id, err := rig.CRI.CreateContainer(pod, s, hal.ContainerSpec{
		Name: name, Attempt: attempt, Image: i.ID, Args: args, UID: -1, GID: -1, LogPath: name + ".log",
		Env: []hal.EnvVar{{Name: "GREETING", Value: "hello"}},
	})
	if err != nil {
		t.Fatalf("CreateContainer = %v", err)
	}
	return id
}

func criLife(t *testing.T, rig CRIRig) {
	spec := rig.sandbox("life")
	pod := rig.runPod(t, spec)
	pods, _, err := rig.CRI.Pods()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range pods {
		if p.ID == pod {
			found = true
			if p.Name != "life" || p.Hash != "h-life" || !p.Ready || p.Address != "" {
				t.Errorf("Pods has %+v; want life, h-life, ready, without an address", p)
			}
		}
	}
	if !found {
		t.Errorf("Pods = %+v; want %s among them", pods, pod)
	}
	id := rig.create(t, pod, spec, "c", 7, rig.Run)
	if c := rig.container(t, id); c.Name != "c" || c.Attempt != 7 || c.State != hal.ContainerCreated || c.Sandbox != pod || c.Image == "" {
		t.Errorf("after CreateContainer: %+v", c)
	}
	before := rig.CRI.Changes()
	if err := rig.CRI.StartContainer(id); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "container that runs", func() bool { return rig.container(t, id).State == hal.ContainerRunning })
	rig.Eventually(t, "a change that is counted", func() bool { return rig.CRI.Changes() != before })
	if code, err := rig.CRI.Exec(id, rig.Ask, 20); code != 0 || err != nil {
		t.Errorf("Exec of a command that succeeds = %d, %v", code, err)
	}
	if code, err := rig.CRI.Exec(id, rig.AskFails, 20); code != 1 || err != nil {
		t.Errorf("Exec of a command that fails = %d, %v; want 1", code, err)
	}
	before = rig.CRI.Changes()
	if err := rig.CRI.StopContainer(id, 20); err != nil {
		t.Fatal(err)
	}
	if c := rig.container(t, id); c.State != hal.ContainerExited {
		t.Errorf("after StopContainer: %+v; want it ended", c)
	}
	rig.Eventually(t, "a change that is counted", func() bool { return rig.CRI.Changes() != before })
	if err := rig.CRI.RemoveContainer(id); err != nil {
		t.Error(err)
	}
	if c := rig.container(t, id); c.ID != "" {
		t.Errorf("after RemoveContainer: %+v", c)
	}
	rig.removePod(t, pod)
}

// criEnds: an exit code is told, and what runs ends with its pod.
func criEnds(t *testing.T, rig CRIRig) {
	spec := rig.sandbox("ends")
	pod := rig.runPod(t, spec)
	failing := rig.create(t, pod, spec, "failing", 0, rig.Fail)
	if err := rig.CRI.StartContainer(failing); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "end of a container that fails", func() bool { return rig.container(t, failing).State == hal.ContainerExited })
	if c := rig.container(t, failing); c.ExitCode != 3 {
		t.Errorf("the container that failed: %+v; want the exit code 3", c)
	}
	running := rig.create(t, pod, spec, "running", 0, rig.Run)
	if err := rig.CRI.StartContainer(running); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := rig.CRI.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	if c := rig.container(t, running); c.State != hal.ContainerExited {
		t.Errorf("after StopPod: %+v; want it ended", c)
	}
	t.Logf("StopPod took %v", time.Since(begun).Round(time.Millisecond))
	rig.removePod(t, pod)
}
