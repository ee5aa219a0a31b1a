package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"machined/init/config"
	"machined/init/supervise"
)

func TestParseUser(t *testing.T) {
	for _, c := range []struct {
		user     string
		uid, gid uint32
		ok       bool
	}{
		{"", 0, 0, true}, {"root", 0, 0, true}, {"1000", 1000, 1000, true}, {"1000:5", 1000, 5, true}, {"4294967294", 1<<32 - 2, 1<<32 - 2, true},
		{"daemon", 0, 0, false}, {"1000:daemon", 0, 0, false}, {"root:5", 0, 0, false}, {":5", 0, 0, false}, {"5:", 0, 0, false},
		{"-1", 0, 0, false}, {"4294967296", 0, 0, false}, {"1:2:3", 0, 0, false},
	} {
		uid, gid, err := parseUser(c.user)
		if uid != c.uid || gid != c.gid || (err == nil) != c.ok {
			t.Errorf("parseUser(%q) = %d, %d, %v; want %d, %d, success %v", c.user, uid, gid, err, c.uid, c.gid, c.ok)
		}
	}
}

func TestService(t *testing.T) {
	got, err := service(config.Service{
		ID: "web", Command: []string{"/bin/web", "-p", "80"}, DependsOn: []string{"db"}, Restart: config.RestartOnFailure,
		StopGrace: 3 * time.Second, Env: []config.EnvVar{{Name: "B", Value: "2"}, {Name: "A", Value: "1 2"}}, User: "10:20", WorkingDir: "/srv",
	})
	want := supervise.Service{
		ID: "web", Command: []string{"/bin/web", "-p", "80"}, DependsOn: []string{"db"}, Restart: supervise.OnFailure,
		StopGrace: 3e9, Env: []string{"PATH=/usr/bin:/usr/sbin:/bin:/sbin", "B=2", "A=1 2"}, UID: 10, GID: 20, Dir: "/srv",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("service() = %+v, %v; want %+v", got, err, want)
	}
	got, err = service(config.Service{ID: "web", Env: []config.EnvVar{{Name: "PATH", Value: "/opt"}}})
	if want := []string{"PATH=/opt"}; err != nil || !slices.Equal(got.Env, want) {
		t.Errorf("service() with a PATH = %q, %v; want %q alone", got.Env, err, want)
	}
	if _, err := service(config.Service{ID: "web", User: "nobody"}); err == nil || !strings.HasPrefix(err.Error(), "service web is left out: ") {
		t.Errorf("service() of user nobody = %v; want an error that says it is left out", err)
	}
}

// TestOutput checks how what services print comes to the console: a line each,
// long ones in parts, the last one also without its end.
func TestOutput(t *testing.T) {
	r := newRig(t)
	read, w, err := os.Pipe()
	mustDo(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.copyLines("web", read)
	}()
	long := strings.Repeat("x", maxLine)
	fmt.Fprintf(w, "one\ntwo\r\n\n%syz\nno end", long)
	mustDo(t, w.Close())
	<-done
	for _, want := range []string{"web: one\n", "web: two\n", "web: \n", "web: " + long + "\n", "web: yz\n", "web: no end\n"} {
		if !r.screen.shows(r.log, want) {
			t.Errorf("the console lacks %.60q", want)
		}
	}
}
