package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// server serves content and cuts each answer after some bytes.
type server struct {
	content  []byte
	cutAfter int  // bytes of an answer; 0 for all
	ranges   bool // it can resume
	status   int  // answered instead, the first fails times
	fails    int
	asked    []string // ranges
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Header.Get("Range"))
	if s.fails > 0 {
		s.fails--
		w.WriteHeader(s.status)
		return
	}
	from := 0
	if s.ranges {
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
	}
	w.Header().Set("ETag", `"one"`)
	w.Header().Set("Content-Length", fmt.Sprint(len(s.content)-from))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(s.content)-1, len(s.content)))
		w.WriteHeader(http.StatusPartialContent)
	}
	rest := s.content[from:]
	if s.cutAfter > 0 && len(rest) > s.cutAfter {
		_, _ = w.Write(rest[:s.cutAfter])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(rest)
}

func TestFetch(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 100000)
	for _, tt := range []struct {
		name   string
		server server
		want   string // of the error; "" for none
		asked  int
	}{
		{"whole", server{}, "", 1},
		{"cut and resumed", server{cutAfter: 300000, ranges: true}, "", 4},
		{"busy at first", server{status: http.StatusServiceUnavailable, fails: 2}, "", 3},
		{"absent", server{status: http.StatusNotFound, fails: 1}, "404 Not Found", 1},
		{"never", server{status: http.StatusBadGateway, fails: 100}, "given up after 3 tries", 4},
		{"no resuming, cut at the same place", server{cutAfter: 300000}, "given up after 3 tries", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.server.content = content
			s := httptest.NewServer(&tt.server)
			defer s.Close()
			f := NewFetch(t.Context(), s.Client(), s.URL, t.Logf)
			f.Pause, f.Tries = time.Millisecond, 3
			got, err := io.ReadAll(f)
			if tt.want == "" && (err != nil || !bytes.Equal(got, content)) {
				t.Errorf("%d bytes, %v; want all %d", len(got), err, len(content))
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("the error is %v; want %q", err, tt.want)
			}
			if len(tt.server.asked) != tt.asked {
				t.Errorf("the server was asked for %q; want %d times", tt.server.asked, tt.asked)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFetchEnds with its context, in the middle of a pause.
func TestFetchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := NewFetch(ctx, http.DefaultClient, "http://127.0.0.1:1/", func(string, ...any) { cancel() })
	f.Pause = time.Hour
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v; want %v", err, context.Canceled)
	}
}

// TestFetchStalls: a server that stays connected and sends nothing is one that was
// cut off, before an answer, at its beginning and in its middle.
func TestFetchStalls(t *testing.T) {
	for _, sent := range []int{-1, 0, 40} {
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from := 0
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
			w.Header().Set("Content-Length", fmt.Sprint(100-from))
			if from > 0 {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-99/100", from))
				w.WriteHeader(http.StatusPartialContent)
			}
			if asked++; asked > 1 {
				_, _ = w.Write(make([]byte, 100-from))
				return
			}
			if sent >= 0 {
				_, _ = w.Write(make([]byte, sent))
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}))
		defer s.Close()
		var said []string
		f := NewFetch(t.Context(), s.Client(), s.URL, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		f.Pause, f.Idle = time.Millisecond, 2*time.Second
		got, err := io.ReadAll(f)
		if err != nil || len(got) != 100 || asked != 2 {
			t.Errorf("%d bytes, %v, after %d requests; want all 100 by the second", len(got), err, asked)
		}
		if want := "the server sent nothing for 2s"; len(said) != 1 || !strings.Contains(said[0], want) {
			t.Errorf("it says %q; want %q", said, want)
		}
	}
}

// TestFetchKeepsSecrets: what a URL has beside its place stays out of what is said.
func TestFetchKeepsSecrets(t *testing.T) {
	s := httptest.NewServer(&server{status: http.StatusBadGateway, fails: 100})
	host := strings.TrimPrefix(s.URL, "http://")
	for range 2 { // the server answers, and is gone
		var said []string
		f := NewFetch(t.Context(), http.DefaultClient, "http://admin:hunter2@"+host+"/b?sig=hunter2", func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		f.Pause, f.Tries = time.Millisecond, 1
		_, err := f.Read(make([]byte, 1))
		for _, text := range append(said, fmt.Sprint(err)) {
			if strings.Contains(text, "hunter2") || !strings.Contains(text, "http://"+host+"/b: ") {
				t.Errorf("it says %q; want the place, and no more of the URL", text)
			}
		}
		s.Close()
	}
}

// TestFetchOtherFile: a server that answers with another range is not believed.
func TestFetchOtherFile(t *testing.T) {
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write(make([]byte, 50))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Range", "bytes 50-149/150")
		w.WriteHeader(http.StatusPartialContent)
	}))
	defer s.Close()
	f := NewFetch(t.Context(), s.Client(), s.URL, t.Logf)
	f.Pause = time.Millisecond
	if _, err := io.ReadAll(f); err == nil || !strings.Contains(err.Error(), "want it from byte 50") {
		t.Errorf("the error is %v; want that the range is another", err)
	}
}
