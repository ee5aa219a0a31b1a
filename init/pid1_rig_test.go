package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"machined/api/apitest"
	"machined/api/client"
	"machined/api/pki"
	"machined/hal/linux"
)

// factory makes nodes that run machined as PID 1.
type factory struct {
	machined, payload string // programs
	ca                *pki.CA
	bundle            *pki.Bundle
}

func newFactory(t *testing.T) *factory {
	dir := t.TempDir()
	f := &factory{machined: filepath.Join(dir, "machined"), payload: filepath.Join(dir, "payload")}
	for out, pkg := range map[string]string{f.machined: ".", f.payload: "./testdata/payload"} {
		build := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", out, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", pkg, err, text)
		}
	}
	now := time.Now()
	f.ca = apitest.NewCA(t, "test", now)
	f.bundle = apitest.NewBundle(t, f.ca, now, time.Hour, pki.RoleAdmin)
	return f
}

// bench is a node that runs in namespaces of its own.
type bench struct {
	t        *testing.T
	root     string
	cmd      *exec.Cmd
	client   *client.Client
	services []string // whose lines on the console are their own

	mu     sync.Mutex
	lines  []string
	stderr strings.Builder
	ended  chan struct{}
}

// setup is what a node finds at its start.
type setup struct {
	card     string // config on the boot partition
	image    string // config in the image
	services []string
	env      string                       // a variable for PID 1
	prepare  func(t *testing.T, b *bench) // the root, before the start
	notReady func(t *testing.T, b *bench) // instead of waiting for the API
}

func (f *factory) start(t *testing.T, s setup) *bench {
	b := &bench{t: t, root: t.TempDir(), services: s.services, ended: make(chan struct{})}
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "sbin", "bin", "data", "boot/machined", "etc/machined", "system/state"} {
		b.must(os.MkdirAll(filepath.Join(b.root, dir), 0o755))
	}
	b.must(os.Link(f.machined, filepath.Join(b.root, program)))
	b.must(os.Link(f.payload, filepath.Join(b.root, "bin/payload")))
	if s.card != "" {
		b.must(os.WriteFile(filepath.Join(b.root, cardDir, configName), []byte(s.card), 0o600))
	}
	if s.image != "" {
		b.must(os.WriteFile(filepath.Join(b.root, imageConfig), []byte(s.image), 0o600))
	}
	b.must(pki.WriteNode(filepath.Join(b.root, cardPKI), apitest.NewNode(t, f.ca, time.Now().Add(-time.Minute))))
	if s.prepare != nil {
		s.prepare(t, b)
	}
	b.run(s.env)
	t.Cleanup(b.close)
	if s.notReady != nil {
		s.notReady(t, b)
		return b
	}
	b.waitLine("boot: Done: machined")
	b.connect(f.bundle)
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(env string) {
	cgroup := ""
	if root := cgroupRoot(); root != "" {
		var err error
		cgroup, err = os.MkdirTemp(root, "machined-test-")
		b.must(err)
		b.t.Cleanup(func() {
			// Its processes take a moment to be gone.
			b.until("the cgroup to be empty", func() bool {
				return linux.Cgroups{Root: cgroup}.Remove("") == nil
			})
		})
	}
	b.cmd = exec.Command("/proc/self/exe")
	b.cmd.Env = []string{rootVar + "=" + b.root, cgroupVar + "=" + cgroup, extraVar + "=" + env}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	b.cmd.Stderr = writerFunc(func(p []byte) { b.stderr.Write(p) })
	out, err := b.cmd.StdoutPipe()
	b.must(err)
	started := make(chan error)
	go func() {
		// PID 1 dies with the thread that started it, which must not be one that
		// enterNetwork ends.
		runtime.LockOSThread()
		defer close(b.ended)
		err := b.cmd.Start()
		if started <- err; err != nil {
			return
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			b.mu.Lock()
			b.lines = append(b.lines, lines.Text())
			b.mu.Unlock()
		}
		_ = b.cmd.Wait()
	}()
	b.must(<-started)
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func (b *bench) close() {
	_ = b.cmd.Process.Kill()
	<-b.ended
	b.checkConsole()
	if b.t.Failed() {
		b.t.Logf("the console showed\n%s\nstderr:\n%s", strings.Join(b.console(), "\n"), b.stderr.String())
	}
}

// checkConsole checks the form of all that was printed, save what services
// print: the time, the component, one sentence.
func (b *bench) checkConsole() {
	form := regexp.MustCompile(`^\[ *\d+\.\d{3}\] ([a-z0-9 _/.-]+): (.*)`)
	for _, line := range b.console() {
		m := form.FindStringSubmatch(line)
		if m != nil && slices.Contains(b.services, m[1]) {
			continue
		}
		if m == nil || len(m[2]) < 2 || !strings.HasSuffix(line, ".") {
			b.t.Errorf("the console showed %q; want it in the form of %s and ending with a full stop", line, form)
		}
	}
	if b.stderr.Len() != 0 {
		b.t.Errorf("PID 1 printed beside its log: %s", b.stderr.String())
	}
}

func (b *bench) console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

func (b *bench) printed(text string) bool {
	return slices.ContainsFunc(b.console(), func(line string) bool { return strings.Contains(line, text) })
}

const patience = 20 * time.Second

func (b *bench) until(what string, ok func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

func (b *bench) waitLine(text string) {
	b.t.Helper()
	b.until("the line "+strconv.Quote(text), func() bool { return b.printed(text) })
}

// endsBy checks how PID 1 ends: as pid_namespaces(7) has it, by SIGHUP after a
// restart and by SIGINT after a power-off.
func (b *bench) endsBy(want syscall.Signal) {
	b.t.Helper()
	select {
	case <-b.ended:
	case <-time.After(patience + emergencyDelay):
		b.t.Fatalf("PID 1 is still there after %s", patience+emergencyDelay)
	}
	ws := b.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ws.Signaled() || ws.Signal() != want {
		b.t.Errorf("PID 1 ended with %v; want signal %v (hangup: restart, interrupt: power off)", b.cmd.ProcessState, want)
	}
}

func (b *bench) signal(s syscall.Signal) {
	b.t.Helper()
	b.must(b.cmd.Process.Signal(s))
}

// alive fails the test when PID 1 has ended.
func (b *bench) alive() {
	b.t.Helper()
	select {
	case <-b.ended:
		b.t.Fatalf("PID 1 ended: %v", b.cmd.ProcessState)
	default:
	}
}

// inside returns a path as the node sees it.
func (b *bench) inside(path string) string {
	return filepath.Join("/proc", strconv.Itoa(b.cmd.Process.Pid), "root", path)
}

// connect makes a client. The node's loopback is in a namespace of its own, so
// a port of ours leads there.
func (b *bench) connect(bundle *pki.Bundle) {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	b.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			ours, err := l.Accept()
			if err != nil {
				return
			}
			go b.forward(ours)
		}
	}()
	b.client, err = client.Dial(l.Addr().String(), bundle, client.Options{Timeout: patience})
	b.must(err)
	b.t.Cleanup(func() { b.client.Close() })
	b.until("the API", func() bool {
		b.alive()
		_, err := b.client.Version(context.Background())
		return err == nil
	})
}

func (b *bench) forward(ours net.Conn) {
	defer ours.Close()
	theirs, err := b.dial()
	if err != nil {
		return
	}
	defer theirs.Close()
	go func() {
		_, _ = io.Copy(theirs, ours)
		theirs.Close()
	}()
	_, _ = io.Copy(ours, theirs)
}

// dial connects to the API from inside the node's network namespace.
func (b *bench) dial() (conn net.Conn, err error) {
	err = b.enterNetwork(func() error {
		conn, err = net.Dial("tcp", "127.0.0.1:50000")
		return err
	})
	return conn, err
}

// enterNetwork runs do in the node's network namespace.
func (b *bench) enterNetwork(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread, which stays there, ends with the goroutine
		ns, err := os.Open(filepath.Join("/proc", strconv.Itoa(b.cmd.Process.Pid), "ns/net"))
		if err != nil {
			done <- err
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

// fields returns a resource's fields as the API has them, nil without it.
func (b *bench) fields(kind, id string) map[string]string {
	b.t.Helper()
	entries, err := b.client.List(context.Background(), kind, "")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.GetId() != id {
			continue
		}
		fields := make(map[string]string)
		for _, f := range e.GetFields() {
			fields[f.GetKey()] = f.GetValue()
		}
		return fields
	}
	return nil
}

// waitService waits until a service's state and message contain the texts.
func (b *bench) waitService(id, state, message string) {
	b.t.Helper()
	b.until("service "+id+" to be "+state+", "+message, func() bool {
		s := b.fields("ServiceStatus", id)
		return s["state"] == state && strings.Contains(s["message"], message)
	})
}
