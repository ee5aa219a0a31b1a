package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/hal"
	"machined/init/containerd"
	"machined/reconcile/runtime"
)

func podWith(sources ...string) *runtime.Pod {
	p := &runtime.Pod{Name: "web", Containers: []runtime.Container{{}}}
	for _, s := range sources {
		p.Containers[0].Mounts = append(p.Containers[0].Mounts, hal.BindMount{Source: s, Target: "/data"})
	}
	return p
}

// TestMountsAreConfined: a container that can write below /var must not be able
// to have another's mount lead elsewhere.
func TestMountsAreConfined(t *testing.T) {
	n := &node{root: t.TempDir()}
	v := n.at(ephemeralDir)
	if err := os.MkdirAll(filepath.Join(v, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(v, "data/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"data/out": "/etc", "data/in": "../lib"} {
		if err := os.Symlink(to, filepath.Join(v, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.makeMounts(podWith("/var/data/web/deep", "/var/data/file", "/var/data/web/deep")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(v, "data/web/deep")); err != nil || !info.IsDir() {
		t.Errorf("the directory is not made: %v", err)
	}
	for source, want := range map[string]string{
		"/var/data/out": "is a symbolic link", "/var/data/out/x": "is a symbolic link", "/var/data/in/x": "is a symbolic link",
		"/var/data/file/x": "is no directory", "/etc/x": "not below /var",
	} {
		if err := n.makeMounts(podWith(source)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a mount of %s: %v; want an error with %q", source, err, want)
		}
	}
}

func TestBundles(t *testing.T) {
	n := &node{root: t.TempDir()}
	if all, err := n.bundles(); err != nil || len(all) != 1 || all[0].Ref != containerd.PauseImage {
		t.Errorf("without images on the card: %+v, %v; want the pause image", all, err)
	}
	dir := n.at(cardImages)
	if err := os.MkdirAll(filepath.Join(dir, "directory.tar"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b.tar", "a.tar", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := n.bundles()
	if err != nil || len(all) != 3 || all[1].Path != filepath.Join(dir, "a.tar") || !strings.HasPrefix(all[1].Stamp, "5 ") {
		t.Errorf("bundles = %+v, %v; want pause, a.tar and b.tar with size and time", all, err)
	}
}

func TestPodTarget(t *testing.T) {
	for _, tt := range []struct {
		kind                  runtime.ProbeKind
		target, address, want string
	}{
		{runtime.ProbeHTTP, "http://127.0.0.1:80/healthz", "10.88.0.2", "http://10.88.0.2:80/healthz"},
		{runtime.ProbeHTTP, "http://localhost/healthz", "10.88.0.2", "http://10.88.0.2/healthz"},
		{runtime.ProbeHTTP, "http://127.0.0.1:80/healthz", "", "http://127.0.0.1:80/healthz"},
		{runtime.ProbeHTTP, "http://192.0.2.1/", "10.88.0.2", "http://192.0.2.1/"},
		{runtime.ProbeTCP, "127.0.0.1:25", "10.88.0.2", "10.88.0.2:25"},
		{runtime.ProbeTCP, "[::1]:25", "10.88.0.2", "10.88.0.2:25"},
		{runtime.ProbeGRPC, "localhost:9", "10.88.0.2", "10.88.0.2:9"},
		{runtime.ProbeGRPC, "unix:///run/x.sock", "10.88.0.2", "unix:///run/x.sock"},
	} {
		if got := podTarget(tt.kind, tt.target, tt.address); got != tt.want {
			t.Errorf("%s in a pod with address %q is asked at %s; want %s", tt.target, tt.address, got, tt.want)
		}
	}
}
