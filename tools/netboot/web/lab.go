package web

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"machined/tools/netboot/registry"
)

//go:embed lab.html
var labPage []byte

const (
	// eventEvery is the least time between two messages to a viewer: what has
	// changed meanwhile is in the next one.
	eventEvery = 200 * time.Millisecond
	// keepAlive is how often a viewer hears of a server that has nothing to say.
	keepAlive = 15 * time.Second
	// maxViewers bounds the viewers. Each holds a version number, and no queue.
	maxViewers = 32
)

// Lab serves the page that shows the boards, the same as JSON, and metrics.
type Lab struct {
	Registry *registry.Registry
	Metrics  *Metrics

	viewers chan struct{}
}

// Handler returns the handler of the page. It is to be served to those who may
// decide about boards.
func (l *Lab) Handler() http.Handler {
	l.viewers = make(chan struct{}, maxViewers)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", l.index)
	mux.HandleFunc("GET /boards.json", l.json)
	mux.HandleFunc("GET /events", l.events)
	mux.HandleFunc("GET /metrics", l.metrics)
	mux.HandleFunc("POST /boards/{id}/{decision}", l.decide)
	return mux
}

// snapshot is the JSON of the boards.
type snapshot struct {
	Version uint64           `json:"version"`
	Boards  []registry.Board `json:"boards"`
}

func (l *Lab) all() snapshot {
	boards, version, _ := l.Registry.Boards(0)
	if boards == nil {
		boards = []registry.Board{}
	}
	return snapshot{version, boards}
}

// index is the page, or its content for programs.
func (l *Lab) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		l.json(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// Nothing is loaded from elsewhere, and what boards say is text.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(labPage)
}

func (l *Lab) json(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, l.all()) }

// events sends the boards, and then those that have changed, as server-sent events
// (the HTML standard, 9.2).
func (l *Lab) events(w http.ResponseWriter, r *http.Request) {
	select {
	case l.viewers <- struct{}{}:
		defer func() { <-l.viewers }()
	default:
		http.Error(w, fmt.Sprintf("%d viewers are the most; close one", maxViewers), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	seen := uint64(0)
	for {
		boards, version, changed := l.Registry.Boards(seen)
		text, err := json.Marshal(snapshot{version, boards})
		if err != nil {
			return
		}
		if len(boards) == 0 && seen != 0 {
			text = nil
		}
		_ = control.SetWriteDeadline(time.Now().Add(stall))
		if text == nil {
			_, err = fmt.Fprint(w, ": still here\n\n")
		} else {
			_, err = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", version, text)
		}
		if err = errors.Join(err, control.Flush()); err != nil {
			return
		}
		seen = max(version, 1)
		select {
		case <-changed:
		case <-time.After(keepAlive):
			continue
		case <-r.Context().Done():
			return
		}
		select { // what changes in between goes with it
		case <-time.After(eventEvery):
		case <-r.Context().Done():
			return
		}
	}
}

// decide keeps a decision. Another site's page cannot send the header without
// being allowed to, which nobody is.
func (l *Lab) decide(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Machined") == "" {
		say(w, http.StatusForbidden, "send the header X-Machined: 1")
		return
	}
	d, ok := registry.ParseDecision(r.PathValue("decision"))
	if !ok {
		say(w, http.StatusBadRequest, "a decision is accept, hold or ignore")
		return
	}
	err := l.Registry.Decide(r.PathValue("id"), d)
	switch {
	case errors.Is(err, registry.ErrUnknown):
		say(w, http.StatusNotFound, err.Error())
	case err != nil:
		say(w, http.StatusInternalServerError, err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (l *Lab) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	boards, _, _ := l.Registry.Boards(0)
	l.Metrics.write(w, boards)
}
