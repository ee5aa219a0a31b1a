package netboot

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/api/pki"
	"machined/images/netboot"
)

const token = "00ff00ff00ff00ff00ff00ff00ff00ff"

// server is a netboot server with a CA of its own.
type server struct {
	*httptest.Server
	ca   []byte
	made time.Time
	// code, header and body are the next answer; calls are the bodies that came.
	code   int
	header string
	body   string
	calls  []map[string]any
	paths  []string
}

func startServer(t *testing.T, names ...string) *server {
	t.Helper()
	s := &server{code: http.StatusOK, body: `{"config":"machine: {}\n","session":"cafe"}`, made: time.Now()}
	ca, err := pki.NewCA("lab", s.made, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := ca.IssueNode(names, s.made)
	if err != nil {
		t.Fatal(err)
	}
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw})
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call map[string]any
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		s.calls, s.paths = append(s.calls, call), append(s.paths, r.Method+" "+r.URL.Path)
		if s.header != "" {
			w.Header().Set("Retry-After", s.header)
		}
		if s.code/100 == 3 {
			w.Header().Set("Location", "https://127.0.0.1:1/")
		}
		w.WriteHeader(s.code)
		fmt.Fprint(w, s.body)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{id.Cert.Raw}, PrivateKey: id.Key}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are wanted
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) client(t *testing.T, clock func() time.Time) *Client {
	t.Helper()
	c, err := New(s.URL, token, s.ca, clock)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEnroll(t *testing.T) {
	s := startServer(t, netboot.ServerName)
	c := s.client(t, time.Now)
	facts := Facts{Board: "x86_64-uefi", Serial: "1", UUID: "2", MACs: []string{"52:54:00:12:34:56"}, Version: "v1", BootID: "3"}
	s.body = `{"config":"machine: {}\n","identity":{"ca":"a","cert":"b","key":"c"},"session":"cafe","later":1}`
	for range 2 {
		got, err := c.Enroll(context.Background(), facts)
		if err != nil || got.Config != "machine: {}\n" || *got.Identity != (Identity{CA: "a", Cert: "b", Key: "c"}) || got.Session != "cafe" {
			t.Fatalf("Enroll() = %+v, %v; want what the server gave", got, err)
		}
	}
	first := s.calls[0]
	nonce, _ := first["nonce"].(string)
	if len(nonce) != 64 || s.calls[1]["nonce"] != nonce || first["token"] != token || first["boot_id"] != "3" || s.paths[0] != "POST /node/enroll" {
		t.Errorf("the server was sent %v to %s; want the token, and one nonce for both calls", s.calls, s.paths)
	}
	if again := s.client(t, time.Now); again.nonce == c.nonce {
		t.Error("two boots have the same nonce")
	}
}

func TestEnrollAnswers(t *testing.T) {
	s := startServer(t, netboot.ServerName)
	c := s.client(t, time.Now)
	for _, a := range []struct {
		code         int
		header, body string
		want         string
		after        time.Duration // of a hold
	}{
		{202, "3", `{"message":"accept me"}`, "holds the node: accept me", 3 * time.Second},
		{202, "", `nothing`, "holds the node: it does not say why", heldFor},
		{202, "-1", `{}`, "holds the node", heldFor},
		{202, "0", `{}`, "holds the node", time.Second},
		{202, "999999999999", `{}`, "holds the node", longestHold},
		{202, "86400", `{}`, "holds the node", longestHold},
		{403, "", `{"message":"unknown\u001b[2J token"}`, "refuses the node (403): unknown [2J token", 0},
		{410, "", `{"message":"used up"}`, "refuses the node (410): used up", 0},
		{500, "", `{"message":"secret"}`, "it answers 500 Internal Server Error", 0},
		{302, "", ``, "it answers 302 Found", 0},
		{200, "", `{"session":"xyz"}`, "no session of hex digits", 0},
		{200, "", `{}`, "no session of hex digits", 0},
		{200, "", `PRIVATE`, "no JSON of an enrolment", 0},
		{200, "", `{"session":"ca","identity":{"ca":"x"}}`, "identity without ca, cert or key", 0},
		{200, "", strings.Repeat(" ", maxAnswer) + "{}", "the answer has more than 1048576 bytes", 0},
	} {
		s.code, s.header, s.body = a.code, a.header, a.body
		_, err := c.Enroll(context.Background(), Facts{})
		if err == nil || !strings.Contains(err.Error(), a.want) || strings.Contains(err.Error(), "PRIVATE") || strings.Contains(err.Error(), token) {
			t.Errorf("Enroll() = %v for %d %.40q; want %q", err, a.code, a.body, a.want)
		}
		var held *HeldError
		var refused *RefusedError
		if errors.As(err, &held) != (a.code == 202) || held != nil && held.After != a.after {
			t.Errorf("Enroll() = %#v for %d, Retry-After %q; want a hold for %s", err, a.code, a.header, a.after)
		}
		if errors.As(err, &refused) != (a.code == 403 || a.code == 410) {
			t.Errorf("Enroll() = %#v for %d", err, a.code)
		}
	}
}

// TestServerIsChecked has the node talk to nobody but the server of its CA.
func TestServerIsChecked(t *testing.T) {
	mine, other, node := startServer(t, netboot.ServerName), startServer(t, netboot.ServerName), startServer(t, "node-1")
	long := func(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }
	for _, c := range []struct {
		name  string
		s     *server
		ca    []byte
		clock func() time.Time
		says  string
	}{
		{"the server", mine, mine.ca, time.Now, ""},
		{"the server, by a clock that was never set", mine, mine.ca, func() time.Time { return time.Unix(0, 0) }, ""},
		{"the server, after its end", mine, mine.ca, long(11 * 365 * 24 * time.Hour), "expired"},
		{"a server of another CA", other, mine.ca, time.Now, "its CA must be the one that the initramfs was built with"},
		{"a node of the CA", node, node.ca, time.Now, "it is for neither netboot.machined.internal nor 127.0.0.1"},
	} {
		client, err := New(c.s.URL, token, c.ca, c.clock)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Enroll(context.Background(), Facts{})
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("Enroll() at %s = %v; want %q", c.name, err, c.says)
		}
	}
	old := startServer(t, netboot.ServerName)
	plain := httptest.NewUnstartedServer(http.NotFoundHandler())
	plain.TLS = &tls.Config{MaxVersion: tls.VersionTLS12, Certificates: old.TLS.Certificates}
	plain.Config.ErrorLog = log.New(io.Discard, "", 0)
	plain.StartTLS()
	defer plain.Close()
	client, err := New(plain.URL, token, old.ca, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Enroll(context.Background(), Facts{}); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("Enroll() = %v with TLS 1.2; want it refused", err)
	}
}

func TestNew(t *testing.T) {
	ca := startServer(t).ca
	for _, c := range []struct{ address, token, says string }{
		{"https://10.0.0.1:8443", token, ""},
		{"https://[fd00::1]:8443/", strings.Repeat("aB", 32), ""},
		{"https://10.0.0.1:8443", "", ""},
		{"http://10.0.0.1:8443", token, "not the root of an https server"},
		{"https://user:pw@10.0.0.1:8443", token, "not the root of an https server"},
		{"https://10.0.0.1:8443/x", token, "not the root of an https server"},
		{"https://10.0.0.1:8443?x", token, "not the root of an https server"},
		{"https://10.0.0.1", token, "no IP address and port"},
		{"https://10.0.0.1:0", token, "no IP address and port"},
		{"https://server:8443", token, "no IP address and port"},
		{"%zz", token, "it is no URL"},
		{"https://10.0.0.1:8443", "xyz", "machined.token: it is not all hex digits"},
		{"https://10.0.0.1:8443", strings.Repeat("a", 65), "machined.token: it has 65 characters"},
	} {
		_, err := New(c.address, c.token, ca, time.Now)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || c.token != "" && strings.Contains(err.Error(), c.token)) {
			t.Errorf("New(%s, %s) = %v; want %q", c.address, c.token, err, c.says)
		}
	}
	if _, err := New("https://10.0.0.1:8443", token, []byte("no"), time.Now); err == nil || !strings.Contains(err.Error(), "CA in the initramfs") {
		t.Errorf("New() without a CA = %v; want an error that names it", err)
	}
}

func TestTell(t *testing.T) {
	s := startServer(t, netboot.ServerName)
	c := s.client(t, time.Now)
	status := Status{Phase: "api", Percent: 75, Message: "waiting"}
	if err := c.Tell(context.Background(), "cafe", status); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"session": "cafe", "phase": "api", "percent": 75.0, "message": "waiting"}
	if fmt.Sprint(s.calls[0]) != fmt.Sprint(want) || s.paths[0] != "POST /node/status" {
		t.Errorf("the server was sent %v to %s; want %v", s.calls[0], s.paths, want)
	}
	s.code = 404
	if err := c.Tell(context.Background(), "cafe", status); err == nil || strings.Contains(err.Error(), "cafe") {
		t.Errorf("Tell() = %v; want an error without the session", err)
	}
}

// TestImage: the session goes to the server that was checked, and nowhere else.
func TestImage(t *testing.T) {
	s := startServer(t, netboot.ServerName)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.paths = append(s.paths, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		if s.code/100 == 3 {
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		}
		w.WriteHeader(s.code)
	})
	client, url := s.client(t, time.Now).Image("cafe")
	for _, code := range []int{200, 302} {
		s.code = code
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("the answer is %d; want %d, followed nowhere", resp.StatusCode, code)
		}
	}
	if got, want := strings.Join(s.paths, ", "), "GET /node/image Bearer cafe, GET /node/image Bearer cafe"; got != want {
		t.Errorf("the server was asked %q; want %q", got, want)
	}
	other := startServer(t, netboot.ServerName)
	c, err := New(other.URL, token, s.ca, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	client, url = c.Image("cafe")
	if _, err := client.Get(url); err == nil {
		t.Error("the image was taken from a server of another CA")
	}
}

func TestRetry(t *testing.T) {
	var r Retry
	broken, refused := errors.New("no route"), error(&RefusedError{Code: 410})
	for i, c := range []struct {
		err  error
		want time.Duration
	}{
		{broken, time.Second}, {broken, 2 * time.Second}, {broken, 4 * time.Second},
		{&HeldError{After: 7 * time.Second}, 7 * time.Second}, {broken, time.Second}, {refused, 20 * time.Second}, {refused, 40 * time.Second},
	} {
		if got := r.After(c.err); got != c.want {
			t.Errorf("%d: After(%v) = %s; want %s", i, c.err, got, c.want)
		}
	}
	for range 100 {
		r.After(broken)
	}
	if got := r.After(broken); got != longestPause {
		t.Errorf("After() = %s in the long run; want %s", got, longestPause)
	}
	if got := r.AfterUnusable(); got != longestSlowPause {
		t.Errorf("AfterUnusable() = %s in the long run; want %s", got, longestSlowPause)
	}
}

func TestMachine(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/device-tree/serial-number": "00000000cafe\x00", "sys/class/dmi/id/product_uuid": "AB-CD\n", "proc/sys/kernel/random/boot_id": "boot\n",
		"sys/class/net/eth0/address": "52:54:00:12:34:AA\n", "sys/class/net/eth0/device/x": "", "sys/class/net/lo/address": "00:00:00:00:00:00\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755), os.WriteFile(filepath.Join(root, path), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var f Facts
	Machine(&f, root)
	if f.Serial != "00000000cafe" || f.UUID != "ab-cd" || f.BootID != "boot" || fmt.Sprint(f.MACs) != "[52:54:00:12:34:aa]" {
		t.Errorf("Machine() found %+v", f)
	}
	Machine(&f, t.TempDir())
	if text, err := json.Marshal(f); err != nil || !strings.Contains(string(text), `"macs":[]`) {
		t.Errorf("a machine that tells nothing is %s, %v", text, err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(200, "", []byte(`{"config":"machine: {}","identity":{"ca":"a","cert":"b","key":"c"},"session":"cafe"}`))
	f.Add(202, "5", []byte(`{"message":"wait"}`))
	f.Add(403, "x", []byte("\xff"))
	f.Fuzz(func(t *testing.T, code int, after string, body []byte) {
		e, err := parseAnswer(code, after, body)
		if (err == nil) != (code == 200 && e.Session != "") {
			t.Fatalf("parseAnswer(%d, %q, %q) = %+v, %v", code, after, body, e, err)
		}
		var held *HeldError
		if errors.As(err, &held) && (held.After < time.Second || held.After > longestHold) {
			t.Fatalf("a hold of %s", held.After)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 4*maxMessage+100) {
			t.Fatalf("the error %q is no line", err)
		}
	})
}
