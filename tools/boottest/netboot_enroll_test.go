package boottest

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"machined/api/machinepb"
	"machined/api/pki"
	"machined/board"
	"machined/images/netboot"
)

const (
	enrollToken   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	enrollSession = "5e55104a5e55104a5e55104a5e55104a"
	ramConfig     = "machine:\n  hostname: ram-1\n"
	notAConfig    = "machine:\n  hostnam: ram-1\n"
)

// answer is what the server answers to an enrolment.
type answer int

const (
	good answer = iota
	held
	badConfig
)

// enrollServer plays the netboot server for one node, which reaches it through
// QEMU's network at 10.0.2.2.
type enrollServer struct {
	*httptest.Server
	identity map[string]string
	config   string // that is good
	image    string // file that a node is installed from
	mu       sync.Mutex
	answers  []answer // the last one stays
	calls    []map[string]any
	told     []string // phases
	faults   []string
}

func randomReader() io.Reader { return rand.Reader }

func startEnroll(t *testing.T, dir string, answers []answer) *enrollServer {
	t.Helper()
	ca, err := pki.LoadCA(filepath.Join(dir, netboot.PKIDir))
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.IssueNode([]string{netboot.ServerName}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	node, err := ca.IssueNode([]string{"ram-1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	nodeDir := filepath.Join(t.TempDir(), "node")
	if err := pki.WriteNode(nodeDir, node); err != nil {
		t.Fatal(err)
	}
	s := &enrollServer{answers: answers, config: ramConfig, identity: make(map[string]string)}
	for key, name := range map[string]string{"ca": pki.CACertFile, "cert": pki.NodeCertFile, "key": pki.NodeKeyFile} {
		text, err := os.ReadFile(filepath.Join(nodeDir, name))
		if err != nil {
			t.Fatal(err)
		}
		s.identity[key] = string(text)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /node/enroll", s.enroll)
	mux.HandleFunc("POST /node/status", s.status)
	mux.HandleFunc("GET /node/image", s.serveImage)
	s.Server = httptest.NewUnstartedServer(mux)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{server.Cert.Raw}, PrivateKey: server.Key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// address is the server's as the node sees it.
func (s *enrollServer) address() string {
	return fmt.Sprintf("https://10.0.2.2:%d", s.Listener.Addr().(*net.TCPAddr).Port)
}

func (s *enrollServer) arguments() string {
	return " machined.netboot=" + s.address() + " machined.token=" + enrollToken
}

func (s *enrollServer) enroll(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var call map[string]any
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		s.faults = append(s.faults, err.Error())
	}
	s.calls = append(s.calls, call)
	now := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if now == held {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"message":"accept it on the page"}`)
		return
	}
	config := s.config
	if now == badConfig {
		config = notAConfig
	}
	err := json.NewEncoder(w).Encode(map[string]any{"config": config, "identity": s.identity, "session": enrollSession})
	if err != nil {
		s.faults = append(s.faults, err.Error())
	}
}

func (s *enrollServer) status(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var told struct {
		Session, Phase, Message string
		Percent                 int
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&told); err != nil || told.Session != enrollSession {
		s.faults = append(s.faults, fmt.Sprintf("a status %+v, %v", told, err))
	}
	s.told = append(s.told, told.Phase)
}

// waitPhase waits until the node has told of a phase.
func (s *enrollServer) waitPhase(t *testing.T, phase string, console func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		s.mu.Lock()
		there := slices.Contains(s.told, phase)
		s.mu.Unlock()
		if there {
			return
		}
	}
	t.Fatalf("the node has told of %v and not of %s", s.told, phase)
}

// forget forgets the phases that a node has told of.
func (s *enrollServer) forget() {
	s.mu.Lock()
	s.told = nil
	s.mu.Unlock()
}

// check looks at what the node has sent.
func (s *enrollServer) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		t.Error(f)
	}
	nonce := regexp.MustCompile(`^[0-9a-f]{64}$`)
	for _, c := range s.calls {
		text, _ := c["nonce"].(string)
		macs, _ := c["macs"].([]any)
		if c["token"] != enrollToken || !nonce.MatchString(text) || text != s.calls[0]["nonce"] || len(macs) != 1 || c["boot_id"] == "" {
			t.Errorf("the node enrolled with %v; want its token, one nonce for all calls, a MAC address and a boot id", c)
		}
	}
	t.Logf("%d enrolments, then the phases %v", len(s.calls), s.told)
}

// checkRAMVersion judges what a netbooted node says of itself.
func checkRAMVersion(t *testing.T, v *machinepb.VersionResponse, built netboot.Board, b board.Board) {
	t.Helper()
	image := regexp.MustCompile(`machined\.image=(\S+)`).FindStringSubmatch(built.Arguments)
	if v.GetVersion() != built.Version || v.GetBoard() != b.Name || v.GetSlot() != "" || len(image) != 2 || v.GetImageId() != image[1] {
		t.Errorf("Version() = %v; want version %s of %s, no slot, and the image %v", v, built.Version, b.Name, image)
	}
}

// checkRAMNode judges a node that has told of being ready.
func checkRAMNode(t *testing.T, m *ramNode, s *enrollServer, answers []answer) {
	t.Helper()
	if out := m.ctl(t, true, "version"); !strings.Contains(out, m.board) {
		t.Errorf("machinectl version printed %q; want %s in it", out, m.board)
	}
	for kind, want := range map[string][]string{
		"MachineConfig": {"hostname: ram-1", "netboot server " + s.address()},
		"VolumeStatus":  {"STATE", "EPHEMERAL", "tmpfs", "Ready"},
		"MountStatus":   {"squashfs"},
		"MemoryStatus":  {"available"},
		"RuntimeStatus": {"ready=true"},
	} {
		out := m.ctl(t, true, "get", kind)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("machinectl get %s printed %q; want %q in it", kind, out, w)
			}
		}
		if kind == "MemoryStatus" {
			t.Log(out)
		}
	}
	if out := m.ctl(t, false, "rollback"); !strings.Contains(out, "the node runs from RAM") {
		t.Errorf("machinectl rollback printed %q; want to be told that the node runs from RAM", out)
	}
	checkApply(t, m)
	console := m.printed()
	for _, secret := range []string{enrollSession, "PRIVATE KEY"} {
		if strings.Contains(console, secret) {
			t.Errorf("the console shows %q", secret)
		}
	}
	for line := range strings.Lines(console) {
		// The kernel prints its arguments; machined must not.
		if strings.Contains(line, enrollToken) && !strings.Contains(line, "ommand line:") {
			t.Errorf("the console shows the token: %q", line)
		}
	}
	want := []string{"boot: Netbooted", "Enrolled at " + s.address()}
	if slices.Contains(answers, held) {
		want = append(want, "holds the node: accept it on the page")
	}
	if slices.Contains(answers, badConfig) {
		want = append(want, "has an error and is passed over", "hostnam")
	}
	for _, w := range want {
		if strings.Count(console, w) < 1 {
			t.Errorf("the console does not show %q", w)
		}
	}
	if n := strings.Count(console, "holds the node"); n > 1 {
		t.Errorf("the console shows %d times that the node is held; want once", n)
	}
}

// checkApply applies a config to a node that has nowhere to keep it but RAM.
func checkApply(t *testing.T, m *ramNode) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "applied.yaml")
	if err := os.WriteFile(path, []byte("machine:\n  hostname: ram-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.ctl(t, true, "apply", path)
	if out := m.ctl(t, true, "get", "MachineConfig"); !strings.Contains(out, "hostname: ram-2") || !strings.Contains(out, "/system/state/config.yaml") {
		t.Errorf("machinectl get MachineConfig printed %q; want what was applied", out)
	}
}
