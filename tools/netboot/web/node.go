package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"machined/images/netboot"
	"machined/tools/netboot/bootfiles"
	"machined/tools/netboot/registry"
)

// maxRequest bounds what a node may send, in bytes.
const maxRequest = 64 << 10

// holdSeconds is when a node that is held asks again.
const holdSeconds = 5

// Node answers the nodes that this server has booted. It is served over TLS alone.
type Node struct {
	Registry *registry.Registry
	// Config and Identity make what a node is given.
	Config   func(registry.Board) (name string, text []byte, err error)
	Identity func(b registry.Board, config []byte) (netboot.Identity, error)
	// Image opens what a board is installed from.
	Image      func(board string) (bootfiles.Content, netboot.Disk, error)
	OnTransfer func(Transfer)
}

// Handler returns the handler of all that a node asks.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /node/enroll", n.enroll)
	mux.HandleFunc("POST /node/status", n.status)
	mux.HandleFunc("GET /node/config", n.config)
	mux.HandleFunc("GET /node/image", n.image)
	return mux
}

func (n *Node) enroll(w http.ResponseWriter, r *http.Request) {
	var q netboot.Request
	if !read(w, r, &q) {
		return
	}
	b, session, err := n.Registry.Enroll(registry.Enrolment{
		Token: q.Token, Nonce: q.Nonce, MACs: q.MACs, Version: q.Version,
		Facts: registry.Facts{Serial: q.Serial, UUID: q.UUID, Name: q.Board, Address: remote(r)},
	})
	switch {
	case errors.Is(err, registry.ErrHeld):
		hold(w, err.Error())
		return
	case errors.Is(err, registry.ErrUsed):
		say(w, http.StatusGone, err.Error())
		return
	case errors.Is(err, registry.ErrToken), errors.Is(err, registry.ErrIgnored):
		say(w, http.StatusForbidden, err.Error())
		return
	case err != nil:
		n.Registry.Fail(b.ID, err.Error())
		say(w, http.StatusInternalServerError, "the server cannot keep what it knows; see its log")
		return
	}
	name, text, err := n.Config(b)
	var identity netboot.Identity
	if err == nil {
		identity, err = n.Identity(b, text)
	}
	if err != nil {
		// Its owner mends that while it waits.
		n.Registry.Fail(b.ID, err.Error())
		hold(w, "its config or identity cannot be given; the server's page and log say why")
		return
	}
	n.Registry.Given(b.ID, name)
	answer(w, http.StatusOK, netboot.Enrolment{Config: string(text), Identity: &identity, Session: session})
}

func (n *Node) status(w http.ResponseWriter, r *http.Request) {
	var q netboot.Report
	if !read(w, r, &q) {
		return
	}
	_, err := n.Registry.Told(q.Session, registry.Status{Phase: q.Phase, Percent: q.Percent, Message: q.Message})
	switch {
	case errors.Is(err, registry.ErrToken):
		say(w, http.StatusForbidden, "the session is not one of this server")
	case err != nil:
		say(w, http.StatusBadRequest, err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// board returns whose session a request has: "Authorization: Bearer SESSION".
func (n *Node) board(w http.ResponseWriter, r *http.Request) (registry.Board, bool) {
	session, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	b, err := n.Registry.Session(session)
	if !ok || session == "" || err != nil {
		say(w, http.StatusForbidden, "the session is not one of this server")
		return b, false
	}
	return b, true
}

// config gives a node its config once more, when its owner has changed it.
func (n *Node) config(w http.ResponseWriter, r *http.Request) {
	b, ok := n.board(w, r)
	if !ok {
		return
	}
	_, text, err := n.Config(b)
	if err != nil {
		n.Registry.Fail(b.ID, err.Error())
		say(w, http.StatusInternalServerError, "its config cannot be given; the server's page and log say why")
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	http.ServeContent(w, r, "config.yaml", time.Time{}, strings.NewReader(string(text)))
}

// image sends what a node installs itself from, in gzip, with ranges. Its size
// unpacked and its hash are in headers.
func (n *Node) image(w http.ResponseWriter, r *http.Request) {
	b, ok := n.board(w, r)
	if !ok {
		return
	}
	c, disk, err := n.Image(b.Name)
	if err != nil {
		code := http.StatusInternalServerError
		if errors.Is(err, fs.ErrNotExist) {
			code = http.StatusNotFound
		}
		say(w, code, fmt.Sprintf("there is no image for the board %q", b.Name))
		return
	}
	defer c.Close()
	w.Header().Set("X-Machined-Disk-Size", strconv.FormatInt(disk.DiskSize, 10))
	w.Header().Set("X-Machined-SHA256", disk.SHA256)
	at, _ := netip.ParseAddr(b.Address)
	t := Transfer{Client: at, Server: local(r), File: disk.Path, Total: c.Size()}
	m := &meter{ResponseWriter: w, deadline: http.NewResponseController(w), tell: func(n int64) {}}
	serve(m, r, disk.Path, c)
	t.Bytes, t.Done, t.Err = m.sent, true, m.err
	n.OnTransfer(t)
}

// read reads a request's JSON.
func read(w http.ResponseWriter, r *http.Request, to any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, to)
	}
	if err != nil {
		say(w, http.StatusBadRequest, "the request is no JSON that a node sends")
		return false
	}
	return true
}

func answer(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

// say answers with a sentence for people.
func say(w http.ResponseWriter, code int, message string) {
	answer(w, code, struct {
		Message string `json:"message"`
	}{message})
}

// hold has a node ask again.
func hold(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", strconv.Itoa(holdSeconds))
	say(w, http.StatusAccepted, message)
}
