package qemu

import (
	"bufio"
	"net"
	"os"
	"strings"
	"testing"
)

// TestQMP talks to a monitor that answers from a script: one line for each
// command, events in between.
func TestQMP(t *testing.T) {
	const greeting = `{"QMP":{"version":{}}}`
	for _, c := range []struct {
		name    string
		answers []string
		says    string // in the error; none when empty
	}{
		{"done", []string{`{"return":{}}`, `{"event":"POWERDOWN"}` + "\n" + `{"return":{}}`}, ""},
		{"refused", []string{`{"return":{}}`, `{"error":{"class":"GenericError","desc":"no such device"}}`}, "no such device"},
		{"hung up", []string{`{"return":{}}`}, "hung up"},
		{"no JSON", []string{`{"return":{}}`, `hello`}, "invalid character"},
	} {
		v := &VM{dir: shortDir(t)}
		asked := monitor(t, v.qmpPath(), greeting, c.answers)
		err := v.PowerButton()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: PowerButton() = %v; want %q", c.name, err, c.says)
		}
		if got := <-asked; len(got) < 2 || got[0] != `{"execute":"qmp_capabilities"}` || got[1] != `{"execute":"system_powerdown"}` {
			t.Errorf("%s: the monitor was told %q; want qmp_capabilities and system_powerdown", c.name, got)
		}
	}
	if err := (&VM{dir: shortDir(t)}).Reset(); err == nil || !strings.Contains(err.Error(), "reach QEMU's monitor") {
		t.Errorf("Reset() = %v without a machine; want that its monitor cannot be reached", err)
	}
}

// shortDir is a directory whose sockets fit into the 108 bytes of a socket's
// path.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "qmp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func monitor(t *testing.T, path, greeting string, answers []string) <-chan []string {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan []string, 1)
	go func() {
		defer l.Close()
		var got []string
		defer func() { asked <- got }()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(greeting + "\n"))
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			got = append(got, lines.Text())
			if len(got) > len(answers) {
				return
			}
			_, _ = conn.Write([]byte(answers[len(got)-1] + "\n"))
		}
	}()
	return asked
}
