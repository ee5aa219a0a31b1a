package boottest

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// agent is the test's end of the guest program that does on a node what the test
// asks for: a node has no shell. The guest fetches its work from here, through
// the network of QEMU.
type agent struct {
	t       *testing.T
	url     string // as the guest reaches it
	work    chan string
	answers chan string
	mux     *http.ServeMux // for more that the guest may reach

	mu  sync.Mutex
	eat bool
}

// hostOfGuests is the address at which QEMU's user network has the host.
const hostOfGuests = "10.0.2.2"

func newAgent(t *testing.T) *agent {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{
		t: t, url: fmt.Sprintf("http://%s:%d", hostOfGuests, l.Addr().(*net.TCPAddr).Port),
		work: make(chan string), answers: make(chan string, 1),
	}
	mux := http.NewServeMux()
	a.mux = mux
	mux.HandleFunc("/work", func(w http.ResponseWriter, r *http.Request) {
		select {
		case work := <-a.work:
			fmt.Fprint(w, work)
		case <-time.After(5 * time.Second):
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/done", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case a.answers <- r.FormValue("answer"):
		default: // of work that was given up
		}
	})
	mux.HandleFunc("/eat", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.eat {
			fmt.Fprint(w, "eat")
		}
	})
	server := &http.Server{Handler: mux}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return a
}

// try has the guest do something.
func (a *agent) try(format string, args ...any) (string, error) {
	a.t.Helper()
	select {
	case <-a.answers: // of work that was given up
	default:
	}
	work := fmt.Sprintf(format, args...)
	select {
	case a.work <- work:
	case <-time.After(patience):
		a.t.Fatalf("the guest does not ask for work; %q is left", work)
	}
	select {
	case answer := <-a.answers:
		if text, failed := strings.CutPrefix(answer, "error: "); failed {
			return "", fmt.Errorf("%s: %s", work, text)
		}
		return answer, nil
	case <-time.After(patience):
		a.t.Fatalf("the guest does not answer to %q", work)
	}
	return "", nil
}

// do is try for what has to succeed.
func (a *agent) do(format string, args ...any) string {
	a.t.Helper()
	answer, err := a.try(format, args...)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer
}

func (a *agent) letEat(eat bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.eat = eat
}
