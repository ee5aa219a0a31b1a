package roottest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"machined/tools/netlab"
)

// patience bounds waiting for what takes milliseconds on an idle machine.
const patience = 60 * time.Second

// peer is another machine: a network namespace with one end of a cable, srv0,
// whose other end is the node's.
type peer struct {
	netlab.Host
	t    *testing.T
	link string // the node's end
}

// newPeer makes the machine and gives it addresses. The node's end of the cable
// is not there until plug.
func newPeer(t *testing.T, addresses ...string) *peer {
	t.Helper()
	p := &peer{t: t, Host: netlab.NewHost(t)}
	// One that is always there, so that servers can be started at any time.
	p.run("ip", "link", "set", "lo", "up")
	p.run("ip", "link", "add", "srv0", "type", "bridge")
	for _, a := range addresses {
		p.run("ip", "addr", "add", a, "dev", "srv0", "nodad")
	}
	p.run("ip", "link", "set", "srv0", "up")
	return p
}

// plug makes the cable: the node gets a link of that name and address.
func (p *peer) plug(link, mac string) {
	p.t.Helper()
	p.link = link
	netlab.Run(p.t, "ip", "link", "add", link, "address", mac, "type", "veth", "peer", "name", "far0", "netns", p.PID())
	p.t.Cleanup(func() { _ = exec.Command("ip", "link", "del", link).Run() })
	p.run("ip", "link", "set", "far0", "master", "srv0", "up")
}

// unplug takes the node's end away, as a USB adapter goes.
func (p *peer) unplug() {
	p.t.Helper()
	netlab.Run(p.t, "ip", "link", "del", p.link)
}

// carrier switches the node's carrier.
func (p *peer) carrier(on bool) {
	p.t.Helper()
	p.run("ip", "link", "set", "far0", map[bool]string{true: "up", false: "down"}[on])
}

func (p *peer) run(args ...string) string {
	p.t.Helper()
	return p.Run(p.t, args...)
}

// daemon is a server that runs until the test ends or stop.
type daemon struct {
	t    *testing.T
	cmd  *exec.Cmd
	mu   sync.Mutex
	log  []string
	done chan struct{}
}

func (p *peer) start(args ...string) *daemon {
	p.t.Helper()
	d := &daemon{t: p.t, cmd: p.Command(args...), done: make(chan struct{})}
	out, in, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	d.cmd.Stdout, d.cmd.Stderr = in, in
	if err := d.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	in.Close()
	go func() {
		defer close(d.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			d.mu.Lock()
			d.log = append(d.log, lines.Text())
			d.mu.Unlock()
		}
		out.Close()
	}()
	p.t.Cleanup(func() {
		d.stop()
		if p.t.Failed() {
			p.t.Logf("%s said:\n%s", args[0], strings.Join(d.lines(), "\n"))
		}
	})
	return d
}

func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(unix.SIGTERM)
	_ = d.cmd.Wait()
	<-d.done
}

func (d *daemon) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

// talk is dnsmasq's log of an exchange: the types of its messages, in order.
func (d *daemon) talk() []string {
	var talk []string
	for _, line := range d.lines() {
		for word := range strings.FieldsSeq(line) {
			if name, _, found := strings.Cut(word, "("); found && strings.HasPrefix(name, "DHCP") && name != "DHCP" {
				talk = append(talk, strings.TrimPrefix(name, "DHCP"))
			}
		}
	}
	return talk
}

// dnsmasq starts a DHCP server with some options and waits until it serves.
func (p *peer) dnsmasq(options ...string) *daemon {
	p.t.Helper()
	d := p.start(append([]string{
		"dnsmasq", "--conf-file=/dev/null", "--keep-in-foreground", "--user=root", "--pid-file=", "--port=0", "--interface=srv0",
		"--no-resolv", "--no-hosts", "--no-ping", "--log-dhcp", "--log-facility=-", "--dhcp-authoritative",
		"--dhcp-leasefile=" + filepath.Join(p.t.TempDir(), "leases"),
	}, options...)...)
	eventually(p.t, "dnsmasq serves", func() bool {
		return slices.ContainsFunc(d.lines(), func(l string) bool {
			return strings.Contains(l, "sockets bound exclusively") || strings.Contains(l, "started, version")
		})
	})
	return d
}

// eventually waits for something, and returns how long it took.
func eventually(t *testing.T, what string, is func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !is() {
		if time.Since(begun) > patience {
			t.Fatalf("not after %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(begun)
	t.Logf("%s after %v", what, took.Round(time.Millisecond))
	return took
}
