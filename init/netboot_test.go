package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
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

	"machined/api"
	"machined/api/pki"
	"machined/hal"
	"machined/images/netboot"
	"machined/reconcile"
	"machined/reconcile/resource"
)

const (
	netToken   = "0123456789abcdef"
	netSession = "feedface"
	goodConfig = "machine: {hostname: served}\n"
)

// netServer plays the netboot server of one node.
type netServer struct {
	*httptest.Server
	ca       *pki.CA
	identity map[string]string
	code     int
	config   string
	enrols   int
	told     []string
}

func newNetServer(t *testing.T) *netServer {
	t.Helper()
	ca, err := pki.NewCA("lab", time.Unix(y2026, 0), rand.Reader)
	mustDo(t, err)
	id, err := ca.IssueNode([]string{netboot.ServerName}, time.Unix(y2026, 0))
	mustDo(t, err)
	s := &netServer{ca: ca, code: http.StatusOK, config: goodConfig, identity: make(map[string]string)}
	node, err := ca.IssueNode([]string{"served"}, time.Unix(y2026, 0))
	mustDo(t, err)
	dir := filepath.Join(t.TempDir(), "node")
	mustDo(t, pki.WriteNode(dir, node))
	for key, name := range map[string]string{"ca": pki.CACertFile, "cert": pki.NodeCertFile, "key": pki.NodeKeyFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		mustDo(t, err)
		s.identity[key] = string(text)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/node/enroll", func(w http.ResponseWriter, _ *http.Request) {
		s.enrols++
		w.WriteHeader(s.code)
		_ = json.NewEncoder(w).Encode(map[string]any{"config": s.config, "identity": s.identity, "session": netSession, "message": "not yet"})
	})
	mux.HandleFunc("/node/status", func(_ http.ResponseWriter, r *http.Request) {
		var told struct{ Phase string }
		_ = json.NewDecoder(r.Body).Decode(&told)
		s.told = append(s.told, told.Phase)
	})
	s.Server = httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{id.Cert.Raw}, PrivateKey: id.Key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// newNetRig returns a node that s has booted, with an address, and STATE.
func newNetRig(t *testing.T, s *netServer) *rig {
	t.Helper()
	r := newRig(t)
	r.boot = handover{Board: "x86_64-uefi", Netbooted: true, Server: s.URL, Token: netToken, WatchdogFD: -1, ListenerFD: -1}
	r.server = &api.Server{} // the tests have no port of their own
	mustDo(t, os.RemoveAll(r.at(cardDir)))
	dir := filepath.Join(t.TempDir(), "ca")
	mustDo(t, pki.WriteCA(dir, s.ca))
	text, err := os.ReadFile(filepath.Join(dir, pki.CACertFile))
	mustDo(t, err)
	write(t, r.at(netbootCA), string(text))
	mustDo(t, keepInitramfs(r.root))
	mustDo(t, r.loadConfig())
	mustDo(t, r.loadIdentity())
	r.startNetboot()
	t.Cleanup(func() {
		for _, secret := range []string{netToken, netSession, "PRIVATE KEY"} {
			if r.screen.shows(r.log, secret) {
				t.Errorf("the console shows %q", secret)
			}
		}
	})
	return r
}

func (r *rig) giveAddress(t *testing.T) {
	t.Helper()
	by, err := r.store.Register("address", reconcile.Output{Kind: resource.AddressStatusKind})
	mustDo(t, err)
	address := hal.Prefix{Address: hal.Address{Len: 4}, Bits: 24}
	copy(address.Address.Bytes[:], []byte{10, 0, 2, 15})
	mustDo(t, r.store.Addresses.Put(by, resource.AddressStatus{Link: "eth0", Address: address}))
}

// enrolTwice makes the two passes of a call: one starts it, one acts on its end.
func (r *rig) enrolTwice() (next int64) {
	for range 2 {
		r.followNetboot(r.clock.SinceBoot())
	}
	return r.netboot.next - r.clock.SinceBoot()
}

func (r *rig) machineConfig() resource.MachineConfig {
	return r.list(resource.MachineConfigKind)[0].(resource.MachineConfig)
}

// TestNetbootEnrols has a node use what its server gives, once it has an address,
// and keep the identity on STATE.
func TestNetbootEnrols(t *testing.T) {
	s := newNetServer(t)
	r := newNetRig(t, s)
	r.enrolTwice()
	if r.identity != nil || s.enrols != 0 {
		t.Fatalf("without an address the node has the identity %v and has called %d times; want neither", r.identity, s.enrols)
	}
	r.giveAddress(t)
	r.enrolTwice()
	r.enrolTwice()
	if s.enrols != 1 || !r.screen.shows(r.log, "netboot: Enrolled at "+s.URL) {
		t.Errorf("the node has enrolled %d times; want once, and to be told", s.enrols)
	}
	if r.identity == nil || !r.identity.kept || r.identity.node.CA != nil || !exists(r.at(statePKI)) {
		t.Fatalf("the identity is %+v; want the server's, kept on STATE", r.identity)
	}
	if c := r.machineConfig(); r.loaded.Config.Machine.Hostname != "served" || c.Source != "netboot server "+s.URL || c.Rejected != "" {
		t.Errorf("the config is %+v; want the server's", c)
	}
	if fmt.Sprint(s.told) != "[config]" {
		t.Errorf("the server was told %v; want that the config is there", s.told)
	}

	// The next boot has the identity before it has the server.
	next := r.again(t)
	next.boot = r.boot
	mustDo(t, next.loadIdentity())
	if next.identity == nil || !next.identity.node.Cert.Equal(r.identity.node.Cert) {
		t.Error("the next boot has another identity; want that of STATE")
	}
}

// TestNetbootConfigOrder tries the sources of a config, the best first.
func TestNetbootConfigOrder(t *testing.T) {
	s := newNetServer(t)
	r := newNetRig(t, s)
	write(t, r.at(netbootDir+"/"+configName), "machine: {hostname: image}\n")
	mustDo(t, r.loadConfig())
	if r.loaded.Config.Machine.Hostname != "image" || r.loaded.Source != imageConfig {
		t.Errorf("before the server's the config is %s; want the image's", r.loaded.Source)
	}
	r.giveAddress(t)
	s.config = "machine: {hostnam: x}\n"
	if next := r.enrolTwice(); next != int64(10*time.Second) {
		t.Errorf("after a config that is not valid the node asks again in %s; want 10s", time.Duration(next))
	}
	c := r.machineConfig()
	if r.loaded.Source != imageConfig || !strings.Contains(c.Rejected, "hostnam: unknown field") || r.identity == nil {
		t.Errorf("with a server's config that is not valid the node has %+v and the identity %v; want the image's config, the faults, and the identity", c, r.identity)
	}
	s.config = goodConfig
	r.clock.Advance(int64(10 * time.Second))
	r.enrolTwice()
	if r.loaded.Source != "netboot server "+s.URL || s.enrols != 2 {
		t.Errorf("after %d calls the config is %s; want the server's after 2", s.enrols, r.loaded.Source)
	}
	write(t, r.at(configPath(0)), "machine: {hostname: applied}\n")
	mustDo(t, r.loadConfig())
	if r.loaded.Source != configPath(0) {
		t.Errorf("the config is %s; want the one that was applied", r.loaded.Source)
	}
}

// TestNetbootHeld says once that the node is held or refused, and goes on asking.
func TestNetbootHeld(t *testing.T) {
	for code, says := range map[int]string{202: "The netboot server holds the node: not yet", 403: "The netboot server refuses the node (403): not yet", 500: "it answers 500"} {
		s := newNetServer(t)
		r := newNetRig(t, s)
		r.giveAddress(t)
		s.code = code
		for range 3 {
			r.clock.Advance(int64(time.Hour))
			if next := r.enrolTwice(); next <= 0 || next > int64(5*time.Minute) {
				t.Errorf("after a %d the node asks again in %s", code, time.Duration(next))
			}
		}
		if n := r.screen.count(r.log, says); n != 1 || s.enrols != 3 {
			t.Errorf("after %d calls answered with %d the console shows %d times %q; want once", s.enrols, code, n, says)
		}
	}
}

// TestNetbootKeepsIdentity does not take another identity for the one of STATE.
func TestNetbootKeepsIdentity(t *testing.T) {
	s, other := newNetServer(t), newNetServer(t)
	r := newNetRig(t, s)
	r.giveAddress(t)
	r.enrolTwice()
	mine := r.identity.node.Cert
	next := newNetRig(t, other)
	next.root = r.root
	mustDo(t, next.loadIdentity())
	next.giveAddress(t)
	next.enrolTwice()
	if other.enrols != 1 || !next.identity.node.Cert.Equal(mine) || next.loaded.Config.Machine.Hostname != "served" {
		t.Errorf("after %d calls the identity is %v; want that of STATE, and the server's config", other.enrols, next.identity.node.Cert.Subject)
	}
}

func TestNetbootBadIdentity(t *testing.T) {
	s := newNetServer(t)
	s.identity["cert"] = "no PEM"
	r := newNetRig(t, s)
	r.giveAddress(t)
	if next := r.enrolTwice(); r.identity != nil || next <= 0 || !r.screen.shows(r.log, "se the identity of the netboot server: use node.crt") {
		t.Errorf("with a damaged identity the node has %v and asks again in %s; want none, and to be told", r.identity, time.Duration(next))
	}
}

// TestNetbootArguments goes on without a server when the arguments are wrong.
func TestNetbootArguments(t *testing.T) {
	for says, edit := range map[string]func(*handover){
		"machined.netboot=https://IP:PORT is missing":   func(h *handover) { h.Server = "" },
		"it is not the root of an https server":         func(h *handover) { h.Server = "http://10.0.0.1:1" },
		"machined.token: it is not all hex digits":      func(h *handover) { h.Token = "nothing" },
		"the certificate of the netboot server's CA in": func(h *handover) { h.Server += "" },
	} {
		r := newNetRig(t, newNetServer(t))
		edit(&r.boot)
		if strings.Contains(says, "certificate") {
			write(t, r.at(netbootDir+"/netboot-ca.crt"), "none")
		}
		r.netboot = netbooting{}
		r.startNetboot()
		r.giveAddress(t)
		r.enrolTwice()
		if r.netboot.client != nil || !r.screen.shows(r.log, says) {
			t.Errorf("the console does not show %q", says)
		}
	}
}

// TestRAMNode answers what is about slots.
func TestRAMNode(t *testing.T) {
	r := newNetRig(t, newNetServer(t))
	n := r.served()
	_, _, err := n.Push(context.Background(), "admin", nil, api.UpgradeOptions{})
	for _, err := range []error{err, n.Upgrade("admin", "", "", api.UpgradeOptions{}), n.TryStaged("admin", false), n.CommitUpgrade("admin"), n.Rollback("admin")} {
		var f *api.Failure
		if !errors.As(err, &f) || f.Cause != api.NotNow || !strings.Contains(err.Error(), "the node runs from RAM") {
			t.Errorf("a call about slots answers %v; want that the node runs from RAM", err)
		}
	}
	r.boot.Netbooted = false
	if _, ok := r.served().(*node); !ok {
		t.Error("a node with slots is served as one without")
	}
}

func TestFromRAM(t *testing.T) {
	h := handover{Slot: "A"}
	if ok, err := fromRAM(&h, bootArgs{}); ok || err != nil || h.Netbooted {
		t.Errorf("fromRAM() = %v, %v without a system in the initramfs; want false", ok, err)
	}
	_, err := fromRAM(&h, bootArgs{Netboot: "https://10.0.0.1:1"})
	if err == nil || !strings.Contains(err.Error(), "machinectl netboot build") {
		t.Errorf("fromRAM() = %v; want to be told that the initramfs is another one", err)
	}
}
