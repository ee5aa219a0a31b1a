package pirom_test

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"machined/tools/netboot/dhcp"
	"machined/tools/netboot/pirom"
	"machined/tools/netboot/tftp"
	"machined/tools/netlab"
	"machined/tools/testenv"
)

// lan is the cable between this server and the boards.
const lan = netlab.Bridge("srv0")

func TestMain(m *testing.M) { os.Exit(netlab.Main(m, 0)) }

type boots struct{}

func (boots) Offer(c dhcp.Client) (dhcp.Target, bool) {
	return dhcp.Target{}, c.Stage == dhcp.RaspberryPi && c.Serial == "b22faaeb"
}
func (boots) Targets() []dhcp.Target { return nil }

// events keeps both servers' events.
type events struct {
	mu   sync.Mutex
	dhcp []dhcp.Event
	tftp []tftp.Event
}

// serve starts both servers on srv0.
func serve(t *testing.T, change func(*dhcp.Config), files map[string]string) *events {
	t.Helper()
	var log bytes.Buffer
	seen, l := &events{}, slog.New(slog.NewTextHandler(&log, nil))
	logDHCP, logTFTP := dhcp.Logger(l), tftp.Logger(l)
	c := dhcp.Config{Interface: "srv0", ServerIP: netip.MustParseAddr("10.0.0.1"), Mode: dhcp.Proxy, Boot: boots{}, OnEvent: func(e dhcp.Event) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.dhcp = append(seen.dhcp, e)
		logDHCP(e)
	}}
	change(&c)
	d, err := dhcp.New(c)
	if err != nil {
		t.Fatal(err)
	}
	open := func(_ context.Context, _ tftp.Client, name string) (tftp.Content, error) {
		if text, ok := files[name]; ok {
			return tftp.Bytes([]byte(text)), nil
		}
		return nil, fs.ErrNotExist
	}
	f, err := tftp.New(tftp.Options{Open: open, OnEvent: func(e tftp.Event) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.tftp = append(seen.tftp, e)
		logTFTP(e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenPacket("udp4", "0.0.0.0:69")
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := d.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, s := range []func() error{func() error { return sockets.Serve(ctx) }, func() error { return f.Serve(ctx, conn) }} {
		wg.Go(func() {
			if err := s(); err != nil {
				t.Errorf("a server ended: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if t.Failed() {
			t.Logf("the servers' log:\n%s", log.String())
		}
	})
	return seen
}

// router is a machine with dnsmasq, as a network has that knows nothing of boards.
func router(t *testing.T) {
	t.Helper()
	lan.Plug(t, "02:00:00:00:00:fe").Dnsmasq(t, "10.0.0.254/24",
		"--dhcp-broadcast", // the board's kernel has no address yet
		"--dhcp-range=10.0.0.50,10.0.0.60,255.255.255.0,2m")
}

func full(c *dhcp.Config) {
	c.Mode, c.Subnet = dhcp.Full, netip.MustParsePrefix("10.0.0.0/24")
	c.PoolFirst, c.PoolLast = netip.MustParseAddr("10.0.0.100"), netip.MustParseAddr("10.0.0.110")
}

func proxy(*dhcp.Config) {}

// card is what a 3B boots from.
func card(prefix string) map[string]string {
	files := map[string]string{"bootcode.bin": strings.Repeat("b", 52480)}
	for name, text := range map[string]string{
		"config.txt": "arm_64bit=1\nkernel=vmlinuz\ninitramfs initramfs.gz followkernel\n", "start.elf": strings.Repeat("s", 3<<20), "fixup.dat": strings.Repeat("f", 7168),
		"bcm2710-rpi-3-b.dtb": strings.Repeat("d", 32768), "cmdline.txt": "console=serial0\n", "vmlinuz": strings.Repeat("k", 9<<20+1), "initramfs.gz": strings.Repeat("i", 5000),
	} {
		files[prefix+name] = text
	}
	return files
}

// TestBoot boots a 3B: with this server alone, and with a proxy beside dnsmasq.
func TestBoot(t *testing.T) {
	testenv.NeedRoot(t, "ip", "nsenter", "dnsmasq")
	for _, c := range []struct {
		name   string
		mode   func(*dhcp.Config)
		prefix string
		pool   string
	}{
		{"full", full, "b22faaeb/", "10.0.0.100"},
		{"proxy", proxy, "b22faaeb/", "10.0.0.5"},
		{"no files of its own", full, "", "10.0.0.100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lan.Add(t, "10.0.0.1/24")
			if c.name == "proxy" {
				router(t)
			}
			board := pirom.Board{MAC: [6]byte{0xb8, 0x27, 0xeb, 0x2f, 0xaa, 0xeb}, Serial: 0xb22faaeb}
			h := lan.Plug(t, "b8:27:eb:2f:aa:eb")
			files := card(c.prefix)
			seen := serve(t, c.mode, files)
			setup := configure(t, h, board)
			if setup.Server.String() != "10.0.0.1" || !strings.HasPrefix(setup.Address.String(), c.pool) {
				t.Fatalf("the board is set up as %v; want an address %s… and 10.0.0.1", setup, c.pool)
			}
			h.Run(t, "ip", "addr", "add", setup.Address.String()+"/24", "dev", "eth0")
			l := &pirom.Loader{Server: netip.AddrPortFrom(setup.Server, 69), Local: setup.Address}
			var err error
			h.Inside(t, func() { err = board.Load(l) })
			if err != nil {
				t.Fatalf("%v; it asked for %q", err, l.Asked)
			}
			for name, text := range files {
				if string(l.Files[name]) != text {
					t.Errorf("%s has %d bytes; want the file of %d", name, len(l.Files[name]), len(text))
				}
			}
			if want := []string{"bootcode.bin", "bootsig.bin", "b22faaeb/start.elf", c.prefix + "autoboot.txt", c.prefix + "config.txt"}; !slices.Equal(l.Asked[:5], want) {
				t.Errorf("the first files are %q; want %q", l.Asked[:5], want)
			}
			checkEvents(t, seen)
		})
	}
}

func configure(t *testing.T, h netlab.Host, board pirom.Board) (s pirom.Setup) {
	t.Helper()
	var err error
	h.Inside(t, func() {
		conn, failed := pirom.Listen("eth0")
		if err = failed; err == nil {
			defer conn.Close()
			s, err = board.Configure(conn)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkEvents: to look whether a file is there is normal, and told as such.
func checkEvents(t *testing.T, seen *events) {
	t.Helper()
	late := time.Now().Add(5 * time.Second)
	for looks := 0; looks < 3; time.Sleep(10 * time.Millisecond) {
		looks = 0
		seen.mu.Lock()
		for _, e := range seen.tftp {
			if e.Kind == tftp.Aborted && e.Normal {
				looks++
			} else if e.Kind == tftp.Aborted || e.Kind == tftp.Failed {
				t.Errorf("an event is %+v", e)
			}
		}
		seen.mu.Unlock()
		if time.Now().After(late) {
			t.Fatalf("%d transfers were told as looks; want 3 and one for start.elf", looks)
		}
	}
}

// TestOthersAreLeftAlone: Linux gets its lease from the network's server, and the
// proxy says nothing; and from this server where it is the only one.
func TestOthersAreLeftAlone(t *testing.T) {
	testenv.NeedRoot(t, "ip", "nsenter", "dnsmasq", "busybox")
	for name, c := range map[string]struct {
		mode func(*dhcp.Config)
		want string
	}{
		"proxy": {proxy, "lease of 10.0.0.5"}, "full": {full, "lease of 10.0.0.100"},
	} {
		t.Run(name, func(t *testing.T) {
			lan.Add(t, "10.0.0.1/24")
			if name == "proxy" {
				router(t)
			}
			seen := serve(t, c.mode, nil)
			out := lan.Plug(t, "02:00:00:00:00:42").Run(t, "busybox", "udhcpc", "-i", "eth0", "-f", "-q", "-n", "-t", "10", "-T", "1", "-s", "/bin/true")
			if !strings.Contains(out, c.want) {
				t.Errorf("udhcpc says\n%s; want %q", out, c.want)
			}
			seen.mu.Lock()
			defer seen.mu.Unlock()
			if name == "proxy" && len(seen.dhcp) > 0 {
				t.Errorf("the proxy's events are %+v; want none", seen.dhcp)
			}
		})
	}
}

// TestListen has what stops a server from starting, with what to do.
func TestListen(t *testing.T) {
	testenv.NeedRoot(t, "ip")
	lan.Add(t, "10.0.0.1/24")
	serve(t, full, nil)
	for want, change := range map[string]func(*dhcp.Config){
		"open port 67 on srv0: listen udp4 0.0.0.0:67: bind: address already in use; another DHCP or PXE server runs": func(*dhcp.Config) {},
		"it does not have the server's address 10.0.0.2, but [10.0.0.1]":                                              func(c *dhcp.Config) { c.ServerIP = netip.MustParseAddr("10.0.0.2") },
		"serve DHCP on eth9: route ip+net: no such network interface":                                                 func(c *dhcp.Config) { c.Interface = "eth9" },
	} {
		c := dhcp.Config{Interface: "srv0", ServerIP: netip.MustParseAddr("10.0.0.1"), Mode: dhcp.Proxy}
		change(&c)
		s, err := dhcp.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Listen(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen: %v; want %q", err, want)
		}
	}
}
