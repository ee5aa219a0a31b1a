package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"machined/tools/netboot/bootfiles"
	"machined/tools/netboot/web"
	"machined/tools/netlab"
	"machined/tools/testenv"
)

const benchSize = 20 << 20

// benchDir names the directory to serve, in the process of benchServer.
const benchDir = "SERVER_BENCH_DIR"

// TestMain runs the tests in a network namespace of their own: port 69 is the only one of
// TFTP.
func TestMain(m *testing.M) {
	if dir := os.Getenv(benchDir); dir != "" {
		fmt.Fprintln(os.Stderr, benchChild(dir))
		os.Exit(1)
	}
	os.Exit(netlab.Main(m, 0))
}

// BenchmarkHTTP has clients read a file of 20 MiB over the loopback, each by a
// connection of its own, from this server and from nginx with sendfile.
func BenchmarkHTTP(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, benchSize), 0o644); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		serve func(*testing.B, string) string
	}{{"machined", benchServer}, {"nginx", nginx}} {
		for _, clients := range []int{1, 16} {
			b.Run(c.name+"/"+strconv.Itoa(clients), func(b *testing.B) {
				at := c.serve(b, dir)
				b.SetBytes(int64(clients) * benchSize)
				for b.Loop() {
					var wg sync.WaitGroup
					for range clients {
						wg.Go(func() {
							if n, err := fetch(at); err != nil || n != benchSize {
								b.Errorf("a client got %d bytes, %v; want %d", n, err, benchSize)
							}
						})
					}
					wg.Wait()
				}
			})
		}
	}
}

// fetch reads the file as plainly as one can, so that little of the time is the
// client's.
func fetch(at string) (int64, error) {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /file HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n"); err != nil {
		return 0, err
	}
	r := bufio.NewReaderSize(c, 256<<10)
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var n int64
	buf := make([]byte, 256<<10)
	for {
		k, err := answer.Body.Read(buf)
		n += int64(k)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// benchServer runs the server in a process of its own, as nginx has one.
func benchServer(b *testing.B, dir string) string {
	return netlab.Server(b, benchDir+"="+dir)
}

// benchChild is the process of benchServer: the files' server, with a registry's
// part left out, which is told four times a second.
func benchChild(dir string) error {
	l, err := listenTCP("", "127.0.0.1:0")
	if err != nil {
		return err
	}
	open := func(_ bootfiles.Asks, name string) (bootfiles.Content, error) {
		f, err := os.Open(filepath.Join(dir, filepath.Base(name)))
		if err != nil {
			return nil, err
		}
		return bootfiles.NewPlain(f, benchSize), nil
	}
	fmt.Println(l.Addr())
	boot := web.Boot{Open: open, OnTransfer: func(web.Transfer) {}}
	return serveHTTP(limit(l, maxConnections, maxConnections), boot, nil, slog.New(slog.DiscardHandler))(context.Background())
}

func nginx(b *testing.B, dir string) string {
	testenv.Need(b, "nginx")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	at := netip.MustParseAddrPort(free.Addr().String())
	free.Close()
	home := b.TempDir()
	conf := filepath.Join(home, "nginx.conf")
	text := fmt.Sprintf(`daemon off; user root; worker_processes auto; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 256; }
http { sendfile on; tcp_nopush on; access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c;
uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e; server { listen %[2]s; root %[3]s; } }
`, home, at, dir)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("nginx", "-p", home, "-c", conf, "-e", filepath.Join(home, "error.log"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // it has to end its workers
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if n, err := fetch(at.String()); err == nil && n == benchSize {
			return at.String()
		}
	}
	log, _ := os.ReadFile(filepath.Join(home, "error.log"))
	b.Fatalf("nginx does not serve: %s", log)
	return ""
}
