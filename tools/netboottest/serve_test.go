package netboottest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"machined/images/netboot"
	"machined/tools/netboot/registry"
	"machined/tools/netlab"
)

// config is the default: a template, so that each board has a name of its own.
const config = "machine:\n  hostname: node-{{.ID}}\n  runtime: {disabled: true}\n"

// built is the netboot directory that the tests' are made from: each board is
// built once.
var built struct {
	sync.Mutex
	dir    string
	boards map[string]bool
}

// directory returns a netboot directory with some boards, of the test alone: big
// files are links.
func directory(t *testing.T, boards ...string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "netboottest-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.boards = dir, make(map[string]bool)
	}
	file := filepath.Join(built.dir, "default.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, b := range boards {
		if built.boards[b] {
			continue
		}
		args := []string{"netboot", "build", "--board", b, "--out", built.dir, "--config", file, "--parts", *partsFlag}
		if out, err := exec.Command(*ctlFlag, args...).CombinedOutput(); err != nil {
			t.Fatalf("machinectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		built.boards[b] = true
	}
	dir := filepath.Join(t.TempDir(), "netboot")
	netlab.Run(t, "cp", "-al", built.dir, dir)
	return dir
}

// biosDirectory is for PCs with a BIOS. Emulated on a busy computer, their timer may
// be too late for the kernel's check of it.
func biosDirectory(t *testing.T) string {
	t.Helper()
	dir := directory(t, x86)
	index, err := netboot.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := index.Boards[x86]
	b.Arguments += " no_timer_check"
	index.Boards[x86] = b
	text, err := index.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, netboot.IndexName)
	if err := os.Remove(path); err != nil { // it is a link
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// server is `machinectl netboot serve`.
type server struct {
	t    *testing.T
	dir  string
	args []string
	cmd  *exec.Cmd
	log  string // file of all its lives
	tty  bool   // it is started at a terminal
}

// lab is where its page is, in this namespace.
const lab = "127.0.0.1:8088"

// serve starts a server on a new bridge. The flags say which DHCP it does.
func serve(t *testing.T, dir string, flags ...string) *server {
	t.Helper()
	s := newServer(t, dir, flags...)
	s.start()
	return s
}

// newServer is serve without its start.
func newServer(t *testing.T, dir string, flags ...string) *server {
	t.Helper()
	lan.Add(t, serverIP+"/24")
	s := &server{t: t, dir: dir, log: filepath.Join(t.TempDir(), "serve.log")}
	s.args = append([]string{"netboot", "serve", "--interface", string(lan), "--dir", dir, "--lab", lab}, flags...)
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("machinectl netboot serve:\n%s", s.said())
		}
	})
	return s
}

// pool is for a network that has no other DHCP server.
var pool = []string{"--pool", "10.77.0.100-10.77.0.120"}

func (s *server) start() {
	s.t.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(*ctlFlag, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if s.tty {
		tty := terminal(s.t, log)
		defer tty.Close()
		s.cmd.Stderr = tty
	} else {
		defer log.Close()
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err = s.boards(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the server does not answer: %v; it says\n%s", err, s.said())
		}
	}
}

// kill takes its power away.
func (s *server) kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) said() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// boards asks its page for all boards.
func (s *server) boards() ([]registry.Board, error) {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get("http://" + lab + "/boards.json")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var all struct {
		Boards []registry.Board `json:"boards"`
	}
	return all.Boards, json.NewDecoder(answer.Body).Decode(&all)
}

// board returns the board of a MAC, which may not have been seen.
func (s *server) board(mac string) (registry.Board, bool) {
	s.t.Helper()
	all, err := s.boards()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, b := range all {
		if b.MAC == mac {
			return b, true
		}
	}
	return registry.Board{}, false
}

// decide is a click on the page.
func (s *server) decide(mac string, d registry.Decision) {
	s.t.Helper()
	url := fmt.Sprintf("http://%s/boards/%s/%s", lab, registry.Name(mac), d)
	r, err := http.NewRequest(http.MethodPost, url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Machined", "1")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		s.t.Fatalf("POST %s answers %s", url, answer.Status)
	}
}

// waitStage waits until a board is at one of the stages, and returns it.
func (s *server) waitStage(mac string, stages ...registry.Stage) (b registry.Board) {
	s.t.Helper()
	took := eventually(s.t, fmt.Sprintf("%s is at one of %v", mac, stages), func() (bool, string) {
		b, _ = s.board(mac)
		for _, stage := range stages {
			if b.Stage == stage {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", b)
	})
	s.t.Logf("%s is at %s after %v: %s of %d bytes at %.1f MB/s, %s", mac, b.Stage, took.Round(100*time.Millisecond), b.File, b.Total, float64(b.Speed)/1e6, b.Client)
	return b
}
