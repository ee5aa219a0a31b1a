//go:build linux

package oci

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// need skips, or fails where CI must not.
func need(t *testing.T, ok bool, why string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("CI") == "true":
		t.Fatalf("CI needs to run this test: %s", why)
	default:
		t.Skip(why)
	}
}

// TestImport has the containerd of the slots take images: once, again, from a
// directory, for another machine, and damaged.
func TestImport(t *testing.T) {
	if testing.Short() {
		t.Skip("builds containerd; left out by -short")
	}
	need(t, os.Geteuid() == 0, "containerd mounts, and this is not root")
	c := startContainerd(t)
	hello := hello(runtime.GOARCH)
	whole := tarball(t, hello)
	digest := manifestOf(t, hello)
	line := "example.org/hello:1 " + digest + "\n"
	file := write(t, "a.tar", whole)
	for _, step := range []struct {
		what string
		path string
		want string // of standard output
		says string // of a failure
	}{
		{"a tarball", file, line, ""},
		{"the same again", file, line, ""},
		{"a directory", unpack(t, whole), line, ""},
		{"gzip", write(t, "a.tgz", zip(t, whole)), line, ""},
		{"another machine's", write(t, "b.tar", tarball(t, Image{Name: "b", Arch: "s390x"})), "", "none of its images is for linux/" + runtime.GOARCH},
		{"a damaged layer", write(t, "c.tar", bytes.Replace(tarball(t, Image{
			Name: "c", Arch: runtime.GOARCH, Files: []File{{"c", 0o644, []byte("contents")}},
		}), []byte("contents"), []byte("CONTENTS"), 1)), "", "is the file whole"},
		{"half of a file", write(t, "d.tar", whole[:len(whole)/2]), "", "d.tar: "},
		{"a text", write(t, "e.tar", []byte(strings.Repeat("text", 300))), "", "e.tar: read the tarball"},
	} {
		var stdout, stderr bytes.Buffer
		cmd := exec.Command(c.program, "import", "--address", c.socket, step.path)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if (err == nil) != (step.says == "") || stdout.String() != step.want || !strings.Contains(stderr.String(), step.says) {
			t.Errorf("importing %s printed %q and %q, %v; want %q and %q", step.what, stdout.String(), stderr.String(), err, step.want, step.says)
		}
	}
}

func manifestOf(t *testing.T, i Image) string {
	t.Helper()
	d, err := Write(&bytes.Buffer{}, i)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type containerd struct{ program, socket string }

// startContainerd builds containerd and runs it in a directory of its own.
func startContainerd(t *testing.T) containerd {
	t.Helper()
	// A socket's path must be short.
	dir, err := os.MkdirTemp("", "ctr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := containerd{filepath.Join(dir, "containerd"), filepath.Join(dir, "sock")}
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", c.program, "./containerd")
	build.Dir = "../../runtime"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build containerd: %v\n%s", err, out)
	}
	config := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf("version = 4\nroot = %q\nstate = %q\n[plugins.'io.containerd.server.v1.grpc']\naddress = %q\n[plugins.'io.containerd.server.v1.ttrpc']\naddress = %q\n",
		dir+"/root", dir+"/state", c.socket, c.socket+".ttrpc")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(c.program, "--config", config)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("containerd:\n%s", log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(c.socket); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("containerd does not listen after a minute")
		}
	}
	_, err = os.Stat(filepath.Join(dir, "root/io.containerd.snapshotter.v1.overlayfs"))
	need(t, err == nil, "this machine has no overlayfs for containerd")
	return c
}
