package web

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/images/netboot"
	"machined/tools/netboot/bootfiles"
	"machined/tools/netboot/registry"
)

// TestBootFiles: whole and in ranges, and nothing but reading.
func TestBootFiles(t *testing.T) {
	g := newRig(t, registry.Accept)
	s := g.boot(map[string]string{"x/uki.efi": "0123456789"})
	for _, c := range []struct {
		method, path, span string
		code               int
		body               string
	}{
		{"GET", "/x/uki.efi", "", 200, "0123456789"},
		{"GET", "/x/uki.efi", "bytes=3-5", 206, "345"},
		{"GET", "/x/uki.efi", "bytes=-2", 206, "89"},
		{"GET", "/x/uki.efi", "bytes=99-", 416, ""},
		{"HEAD", "/x/uki.efi", "", 200, ""},
		{"GET", "/nothing", "", 404, "Not Found\n"},
		{"POST", "/x/uki.efi", "", 405, "only GET and HEAD are served\n"},
		{"DELETE", "/x/uki.efi", "", 405, "only GET and HEAD are served\n"},
	} {
		resp, body := g.call(c.method, s.URL+c.path, "", "Range", c.span)
		if resp.StatusCode != c.code || c.code < 400 && body != c.body {
			t.Errorf("%s %s %s = %d, %q; want %d, %q", c.method, c.path, c.span, resp.StatusCode, body, c.code, c.body)
		}
	}
	resp, _ := g.call("HEAD", s.URL+"/x/uki.efi", "")
	if resp.ContentLength != 10 || resp.Header.Get("Accept-Ranges") != "bytes" || resp.Header.Get("Content-Type") != "application/efi" {
		t.Errorf("the head is %v of %d bytes; want what UEFI's HTTP boot needs", resp.Header, resp.ContentLength)
	}
	g.call("GET", s.URL+"/x/uki.efi", "")
	if last := g.last(); !last.Done || last.Bytes != 10 || last.Total != 10 || last.Err != nil || last.Client != loopback {
		t.Errorf("the transfer is %+v; want it done", last)
	}
}

// TestSendsFiles: a file of the disk goes by the kernel, with the same counts.
func TestSendsFiles(t *testing.T) {
	const size = 5*piece + 77
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600); err != nil {
		t.Fatal(err)
	}
	g := newRig(t, registry.Accept)
	s := g.serve(Boot{OnTransfer: g.transferred, Open: func(bootfiles.Asks, string) (bootfiles.Content, error) {
		f, err := os.Open(path)
		return bootfiles.NewPlain(f, size), err
	}})
	if resp, body := g.call("GET", s.URL+"/f", ""); resp.StatusCode != 200 || len(body) != size {
		t.Errorf("GET = %d with %d bytes; want %d", resp.StatusCode, len(body), size)
	}
	if last := g.last(); !last.Done || last.Bytes != size {
		t.Errorf("the transfer is %+v; want %d bytes", last, size)
	}
	if resp, body := g.call("GET", s.URL+"/f", "", "Range", fmt.Sprintf("bytes=%d-", piece+3)); resp.StatusCode != 206 || len(body) != size-piece-3 {
		t.Errorf("GET of a range = %d with %d bytes; want %d", resp.StatusCode, len(body), size-piece-3)
	}
}

// enroll sends a node's request.
func (g *rig) enroll(url, token, nonce string) (*http.Response, netboot.Enrolment, string) {
	g.t.Helper()
	resp, body := g.call("POST", url+"/node/enroll", fmt.Sprintf(`{"token":%q,"nonce":%q,"board":"x86_64-uefi","version":"v1"}`, token, nonce))
	var a netboot.Enrolment
	_ = json.Unmarshal([]byte(body), &a)
	return resp, a, body
}

func (g *rig) token() string {
	g.t.Helper()
	token, err := g.registry.Token(loopback)
	if err != nil {
		g.t.Fatal(err)
	}
	return token
}

// TestEnroll: a node gets its config and identity for its token, and for no other.
func TestEnroll(t *testing.T) {
	g := newRig(t, registry.Accept)
	s := g.node()
	token := g.token()
	for _, c := range []struct {
		what, token, nonce string
		code               int
	}{
		{"a wrong token", "ab", "n", 403},
		{"no token", "", "n", 403},
		{"the node", token, "n", 200},
		{"the node again", token, "n", 200},
		{"another with its token", token, "m", 410},
	} {
		resp, a, body := g.enroll(s.URL, c.token, c.nonce)
		if resp.StatusCode != c.code {
			t.Errorf("%s: %d %s; want %d", c.what, resp.StatusCode, body, c.code)
		}
		if c.code == 200 && (a.Config != g.config || a.Identity == nil || a.Identity.Key != "key" || a.Session == "") {
			t.Errorf("%s: %s; want config, identity and session", c.what, body)
		}
		if c.code != 200 && (strings.Contains(body, "key") || strings.Contains(body, token) && token != "") {
			t.Errorf("%s: %s has a secret", c.what, body)
		}
	}
	for _, body := range []string{"", "{", "[]", `{"token":1}`, `{"token":"` + strings.Repeat("x", maxRequest) + `"}`} {
		if resp, _ := g.call("POST", s.URL+"/node/enroll", body); resp.StatusCode != 400 {
			t.Errorf("the request %.20q has %d; want 400", body, resp.StatusCode)
		}
	}
}

// TestHeldNode waits for a person, and for a config that can be given.
func TestHeldNode(t *testing.T) {
	g := newRig(t, registry.Hold)
	s := g.node()
	token := g.token()
	resp, _, body := g.enroll(s.URL, token, "n")
	if resp.StatusCode != 202 || resp.Header.Get("Retry-After") == "" || strings.Contains(body, "config") {
		t.Fatalf("a held node gets %d %v %s; want to ask again", resp.StatusCode, resp.Header, body)
	}
	boards, _, _ := g.registry.Boards(0)
	if err := g.registry.Decide(boards[0].ID, registry.Accept); err != nil {
		t.Fatal(err)
	}
	g.err = errors.New("default.yaml:3: no such field: key=hunter2")
	if resp, _, body := g.enroll(s.URL, token, "n"); resp.StatusCode != 202 || strings.Contains(body, "hunter2") {
		t.Errorf("with a bad config it gets %d %s; want to ask again, and not what the config says", resp.StatusCode, body)
	}
	if boards, _, _ := g.registry.Boards(0); !strings.Contains(boards[0].Error, "no such field") {
		t.Errorf("the board's error is %q; want what is wrong with its config", boards[0].Error)
	}
	g.err = nil
	if resp, _, _ := g.enroll(s.URL, token, "n"); resp.StatusCode != 200 {
		t.Errorf("with all in order it gets %d", resp.StatusCode)
	}
}

// TestSession: what a node asks and tells later.
func TestSession(t *testing.T) {
	g := newRig(t, registry.Accept)
	s := g.node()
	_, a, _ := g.enroll(s.URL, g.token(), "n")
	tell := func(session, phase string) int {
		resp, _ := g.call("POST", s.URL+"/node/status", fmt.Sprintf(`{"session":%q,"phase":%q,"percent":100}`, session, phase))
		return resp.StatusCode
	}
	if tell(a.Session, "ready") != 204 || tell("ab", "ready") != 403 || tell("", "ready") != 403 || tell(a.Session, "x") != 400 {
		t.Error("what nodes tell is not told apart")
	}
	if boards, _, _ := g.registry.Boards(0); boards[0].Stage != registry.Ready {
		t.Errorf("the board is %s; want ready", boards[0].Stage)
	}
	for _, path := range []string{"/node/config", "/node/image"} {
		for _, auth := range []string{"", "Bearer ", "Bearer ab", a.Session} {
			if resp, _ := g.call("GET", s.URL+path, "", "Authorization", auth); resp.StatusCode != 403 {
				t.Errorf("GET %s with %q = %d; want 403", path, auth, resp.StatusCode)
			}
		}
	}
	if _, body := g.call("GET", s.URL+"/node/config", "", "Authorization", "Bearer "+a.Session); body != g.config {
		t.Errorf("the config is %q; want %q", body, g.config)
	}
	resp, body := g.call("GET", s.URL+"/node/image", "", "Authorization", "Bearer "+a.Session, "Range", "bytes=3-7")
	if body != "image" || resp.Header.Get("X-Machined-Disk-Size") != "99" || resp.Header.Get("X-Machined-SHA256") != "ab" {
		t.Errorf("a range of the image is %q, %v", body, resp.Header)
	}
}

func (g *rig) lab() string {
	l := &Lab{Registry: g.registry, Metrics: &Metrics{}}
	l.Metrics.TFTPDone.Store(3)
	return g.serve(l.Handler()).URL
}

// TestLab: the page, the same as JSON, metrics, and decisions.
func TestLab(t *testing.T) {
	g := newRig(t, registry.Hold)
	url := g.lab()
	if resp, body := g.call("GET", url+"/", ""); !strings.Contains(body, "<title>machined lab") || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the page is %.80q, %v", body, resp.Header)
	}
	if _, body := g.call("GET", url+"/", "", "Accept", "application/json"); !strings.Contains(body, `"mac":"`+mac+`"`) {
		t.Errorf("the JSON is %s", body)
	}
	_, body := g.call("GET", url+"/metrics", "")
	for _, want := range []string{"machined_netboot_boards{stage=\"dhcp\"} 1\n", "machined_netboot_boards{stage=\"ready\"} 0\n", "machined_netboot_transfers_total{by=\"tftp\",end=\"done\"} 3\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %q:\n%s", want, body)
		}
	}
	const id = "52-54-00-12-34-56"
	for _, c := range []struct {
		path, header string
		code         int
	}{
		{"/boards/" + id + "/accept", "", 403},
		{"/boards/" + id + "/explode", "1", 400},
		{"/boards/nobody/accept", "1", 404},
		{"/boards/" + id + "/accept", "1", 204},
	} {
		if resp, _ := g.call("POST", url+c.path, "", "X-Machined", c.header); resp.StatusCode != c.code {
			t.Errorf("POST %s with %q = %d; want %d", c.path, c.header, resp.StatusCode, c.code)
		}
	}
	if boards, _, _ := g.registry.Boards(0); boards[0].Decision != registry.Accept {
		t.Errorf("the board is %+v; want it accepted", boards[0])
	}
}

// TestEvents: a viewer gets all boards, and then what changes.
func TestEvents(t *testing.T) {
	g := newRig(t, registry.Accept)
	resp, err := http.Get(g.lab() + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("the type is %s", got)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func() (s snapshot) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &s); err != nil {
					t.Fatal(err)
				}
				return s
			}
		}
		t.Fatal("the events have ended")
		return s
	}
	if s := next(); len(s.Boards) != 1 || s.Boards[0].MAC != mac {
		t.Fatalf("the first event has %+v", s)
	}
	g.registry.Ask(registry.Facts{MAC: "02:00:00:00:00:01"})
	if s := next(); len(s.Boards) != 1 || s.Boards[0].MAC == mac {
		t.Errorf("the second event has %+v; want the new board alone", s)
	}
}

// TestViewers bounds them.
func TestViewers(t *testing.T) {
	g := newRig(t, registry.Accept)
	url := g.lab()
	for range maxViewers {
		resp, err := http.Get(url + "/events")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	if resp, _ := g.call("GET", url+"/events", ""); resp.StatusCode != 503 {
		t.Errorf("one viewer more gets %d; want 503", resp.StatusCode)
	}
}
