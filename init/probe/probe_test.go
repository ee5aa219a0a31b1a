package probe

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"machined/hal"
	"machined/hal/linux"
	"machined/init/supervise"
)

// prober is a Prober on the real drivers, and the end of its jobs.
type prober struct {
	*Prober
	ended chan struct{}
}

func newProber(t *testing.T) prober {
	reaper := linux.NewReaper()
	t.Cleanup(reaper.Close)
	ended := make(chan struct{}, 100)
	return prober{Prober: &Prober{
		Jobs: linux.NewJobs(func() { ended <- struct{}{} }), Processes: linux.NewProcesses(reaper, ""),
	}, ended: ended}
}

const second = int64(time.Second)

func (p prober) ask(t *testing.T, probe supervise.Probe) error {
	t.Helper()
	if probe.Timeout == 0 {
		probe.Timeout = 10 * second
	}
	return p.wait(t, p.Probe(&supervise.Service{ID: "a", Probe: &probe}))
}

func (p prober) wait(t *testing.T, job hal.Job) error {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the probe does not end")
	}
	if !job.Done() {
		t.Fatal("the probe is not done")
	}
	return job.Err()
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestHTTP(t *testing.T) {
	p := newProber(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
		case "/host":
			if r.Host == "" || r.Method != http.MethodGet || r.URL.RawQuery != "q=1" {
				w.WriteHeader(400)
			}
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/big":
			w.Header().Set("X", strings.Repeat("x", 100000))
			_, _ = w.Write(make([]byte, 1<<20))
		default:
			w.WriteHeader(503)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	for _, server := range []string{plain.URL, secure.URL} {
		for path, want := range map[string]string{"": "", "/": "", "/host?q=1": "", "/moved": "", "/big": "", "/ill": "HTTP status 503 Service Unavailable"} {
			err := p.ask(t, supervise.Probe{Kind: supervise.ProbeHTTP, Target: server + path})
			if (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("GET %s%s = %v; want %q", server, path, err, want)
			}
		}
	}
}

// TestHTTPNonsense answers with what is no HTTP, or with too much of it.
func TestHTTPNonsense(t *testing.T) {
	p := newProber(t)
	for _, answer := range []string{"", "\r\n", "SSH-2.0-x\r\n", "HTTP/1.1\r\n", "HTTP/1.1 2xx\r\n", "HTTP/1.1 " + strings.Repeat("2", 1<<16), strings.Repeat("\x00", 1<<16)} {
		l := listen(t, "tcp", "127.0.0.1:0")
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1000))
			_, _ = c.Write([]byte(answer))
			c.Close()
		}()
		if err := p.ask(t, supervise.Probe{Kind: supervise.ProbeHTTP, Target: "http://" + l.Addr().String() + "/"}); err == nil {
			t.Errorf("the answer %.20q is taken for health", answer)
		}
	}
}

// TestReasonsStay: the port on our side was a part of the error, so that each
// probe of a service that hung up was news.
func TestReasonsStay(t *testing.T) {
	p := newProber(t)
	l := listen(t, "tcp", "127.0.0.1:0")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}()
	seen := map[string]bool{}
	for range 20 {
		err := p.ask(t, supervise.Probe{Kind: supervise.ProbeHTTP, Target: "http://" + l.Addr().String()})
		if err == nil {
			t.Fatal("a service that hangs up is taken for health")
		}
		seen[err.Error()] = true
	}
	if len(seen) > 3 { // the reset may come before the question, after it, or before the answer
		t.Errorf("20 probes have %d reasons: %v", len(seen), seen)
	}
}

func TestSplitURL(t *testing.T) {
	for url, want := range map[string]string{
		"http://a": "a a:80 / false", "https://a/b?c#d": "a a:443 /b?c true", "http://a:8080?x": "a:8080 a:8080 /?x false",
		"http://[::1]/": "[::1] [::1]:80 / false", "http://[::1]:90/x": "[::1]:90 [::1]:90 /x false",
	} {
		host, address, path, secure, err := splitURL(url)
		if got := fmt.Sprint(host, " ", address, " ", path, " ", secure); got != want || err != nil {
			t.Errorf("splitURL(%q) = %q, %v; want %q", url, got, err, want)
		}
	}
	if _, _, _, _, err := splitURL("ftp://a"); err == nil {
		t.Error("splitURL took ftp")
	}
}

func TestTCP(t *testing.T) {
	p := newProber(t)
	l := listen(t, "tcp", "127.0.0.1:0")
	if err := p.ask(t, supervise.Probe{Kind: supervise.ProbeTCP, Target: l.Addr().String()}); err != nil {
		t.Errorf("a port that listens = %v; want health", err)
	}
	l.Close()
	if err := p.ask(t, supervise.Probe{Kind: supervise.ProbeTCP, Target: l.Addr().String()}); err == nil {
		t.Error("a closed port is taken for health")
	}
}

func TestExec(t *testing.T) {
	p := newProber(t)
	for script, want := range map[string]string{"exit 0": "", "exit 3": "the probe exited with code 3", "kill -9 $$": "the probe was ended by signal 9"} {
		err := p.ask(t, supervise.Probe{Kind: supervise.ProbeExec, Exec: []string{"/bin/sh", "-c", script}})
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q = %v; want %q", script, err, want)
		}
	}
	if err := p.ask(t, supervise.Probe{Kind: supervise.ProbeExec, Exec: []string{"/no/such"}}); err == nil {
		t.Error("a command that is not there is taken for health")
	}
	err := p.ask(t, supervise.Probe{Kind: supervise.ProbeExec, Exec: []string{"/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"}, Timeout: second / 10})
	if err == nil || err.Error() != "no answer within 100ms" {
		t.Errorf("a command that does not end = %v; want that it has not answered", err)
	}
}

func TestGRPC(t *testing.T) {
	p := newProber(t)
	socket := filepath.Join(t.TempDir(), "s")
	for _, l := range []net.Listener{listen(t, "tcp", "127.0.0.1:0"), listen(t, "unix", socket)} {
		target := l.Addr().String()
		if l.Addr().Network() == "unix" {
			target = "unix://" + socket
		}
		server, h := grpc.NewServer(), health.NewServer()
		grpc_health_v1.RegisterHealthServer(server, h)
		go func() { _ = server.Serve(l) }()
		t.Cleanup(server.Stop)
		if err := p.ask(t, supervise.Probe{Kind: supervise.ProbeGRPC, Target: target}); err != nil {
			t.Errorf("%s = %v; want health", target, err)
		}
		h.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		if err := p.ask(t, supervise.Probe{Kind: supervise.ProbeGRPC, Target: target}); err == nil || err.Error() != "its health service says NOT_SERVING" {
			t.Errorf("%s that does not serve = %v", target, err)
		}
	}
}

// TestSilence asks a server that accepts and says nothing: each kind gives up at
// its time-out, and leaves neither goroutines nor processes behind.
func TestSilence(t *testing.T) {
	p := newProber(t)
	l := listen(t, "tcp", "127.0.0.1:0")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	address := l.Addr().String()
	probes := []supervise.Probe{
		{Kind: supervise.ProbeHTTP, Target: "http://" + address}, {Kind: supervise.ProbeHTTP, Target: "https://" + address},
		{Kind: supervise.ProbeGRPC, Target: address}, {Kind: supervise.ProbeExec, Exec: []string{"/bin/sleep", "1000"}},
	}
	for _, probe := range probes { // the first of each kind starts what stays
		probe.Timeout = second / 20
		_ = p.ask(t, probe)
	}
	before := runtime.NumGoroutine()
	for range 5 {
		for _, probe := range probes {
			probe.Timeout = second / 20
			if err := p.ask(t, probe); err == nil || !strings.HasPrefix(err.Error(), "no answer within") {
				t.Errorf("%+v = %v; want no answer in time", probe, err)
			}
		}
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestUnknownKind(t *testing.T) {
	if err := newProber(t).ask(t, supervise.Probe{Kind: 99}); err == nil || errors.Is(err, hal.ErrNotFound) {
		t.Errorf("a probe of no kind = %v; want an error", err)
	}
}
