package tftp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"machined/tools/netlab"
	"machined/tools/testenv"
)

const benchSize = 20 << 20

// BenchmarkTFTP has clients read a file of 20 MiB over the loopback, from this
// server and from dnsmasq's. The clients and their terms are the same for both:
// blksize 1428 and no windowsize, which dnsmasq does not have. What windows gain
// on top is in machined-window.
func BenchmarkTFTP(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), pattern(benchSize), 0o644); err != nil {
		b.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		serve func(*testing.B, string) netip.AddrPort
		extra []string
	}{
		{"machined", benchServer, nil},
		{"dnsmasq", dnsmasq, nil},
		{"machined-window", benchServer, []string{"windowsize", "16"}},
	} {
		for _, clients := range []int{1, 16} {
			b.Run(c.name+"/"+strconv.Itoa(clients), func(b *testing.B) {
				at := c.serve(b, dir)
				b.SetBytes(int64(clients) * benchSize)
				for b.Loop() {
					read(b, at, clients, append([]string{"blksize", "1428", "tsize", "0"}, c.extra...))
				}
			})
		}
	}
}

func read(b *testing.B, at netip.AddrPort, clients int, opts []string) {
	var wg sync.WaitGroup
	for range clients {
		c := newClient(b, at)
		wg.Go(func() {
			defer c.conn.Close()
			if n, err := c.read("file", opts...); err != nil || n != benchSize {
				b.Errorf("a client got %d bytes, %v; want %d", n, err, benchSize)
			}
		})
	}
	wg.Wait()
}

// benchServer runs the server in a process of its own, as dnsmasq has one: else
// it would share the Go scheduler with the clients.
func benchServer(b *testing.B, dir string) netip.AddrPort {
	return netip.MustParseAddrPort(netlab.Server(b, benchDir+"="+dir))
}

// benchDir names the directory to serve, in the process of benchServer.
const benchDir = "TFTP_BENCH_DIR"

// TestMain runs the tests in a network namespace of their own: dnsmasq serves TFTP
// at port 69 alone, which others may have.
func TestMain(m *testing.M) {
	if dir := os.Getenv(benchDir); dir != "" {
		fmt.Fprintln(os.Stderr, benchChild(dir))
		os.Exit(1)
	}
	os.Exit(netlab.Main(m, 0))
}

// benchChild is the process of benchServer.
func benchChild(dir string) error {
	d, err := OpenDir(dir)
	if err != nil {
		return err
	}
	s, err := New(Options{Open: d.Open, MTU: 1500, MaxPerClient: 64})
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	fmt.Println(conn.LocalAddr())
	return s.Serve(context.Background(), conn)
}

func dnsmasq(b *testing.B, dir string) netip.AddrPort {
	testenv.NeedRoot(b, "dnsmasq")
	cmd := exec.Command("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--user=root", "--listen-address=127.0.0.1",
		"--bind-interfaces", "--enable-tftp", "--tftp-root="+dir, "--tftp-no-fail", "--pid-file=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 69)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		c := newClient(b, at)
		c.ask(readRequest("none"))
		if c.packet(time.Second/4) != nil {
			return at
		}
	}
	b.Fatal("dnsmasq does not answer")
	return at
}
