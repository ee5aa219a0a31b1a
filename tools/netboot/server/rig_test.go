package server

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"machined/api/pki"
	"machined/images/netboot"
	"machined/tools/netboot/dhcp"
	"machined/tools/netboot/registry"
)

var (
	serverIP = netip.MustParseAddr("192.0.2.1")
	boardIP  = netip.MustParseAddr("192.0.2.9")
	boardMAC = dhcp.MAC{0x52, 0x54, 0, 0, 0, 1}
)

// directory is a netboot directory with a PC, an arm64 board and a Pi.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file := func(name, content string) netboot.File {
		put(t, dir, name, content)
		sum := sha256.Sum256([]byte(content))
		return netboot.File{Path: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	}
	board := func(name, arch string) netboot.Board {
		return netboot.Board{
			Version: "v1", Arch: arch, Arguments: "console=ttyS0",
			Kernel: file(name+"/kernel", "kernel"), Initramfs: file(name+"/initramfs.img", "initramfs"),
			Image: netboot.Disk{File: file(name+"/disk.img.gz", "disk"), DiskSize: 9},
		}
	}
	uki := func(name string) *netboot.UKI {
		return &netboot.UKI{File: file(name+"/uki.efi", "MZ"+strings.Repeat(" ", netboot.PlaceholderLength)),
			Placeholder: netboot.Placeholder{Offset: 2, Length: netboot.PlaceholderLength}}
	}
	x := netboot.Index{Format: netboot.Format, Boards: map[string]netboot.Board{}}
	for name, arch := range map[string]string{x86Board: "amd64", arm64Board: "arm64", "rpi-3a-plus": "arm64"} {
		b := board(name, arch)
		if name == "rpi-3a-plus" {
			b.Tree = name
		} else {
			b.UKI = uki(name)
		}
		x.Boards[name] = b
	}
	put(t, dir, "rpi-3a-plus/config.txt", "kernel=kernel\ninitramfs initramfs.img followkernel\n")
	for _, name := range []string{"bootcode.bin", "start.elf", "fixup.dat", "bcm2710-rpi-3-b-plus.dtb"} {
		put(t, dir, "rpi-3a-plus/"+name, name)
	}
	put(t, dir, "configs/default.yaml", "machine: {}\n")
	text, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, netboot.IndexName, string(text))
	ca, err := pki.NewCA("lab", time.Now(), rand.Reader)
	if err == nil {
		err = pki.WriteCA(filepath.Join(dir, netboot.PKIDir), ca)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// said is a log that tests read.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func options(dir string, log *said) Options {
	return Options{
		Dir: dir, DHCP: dhcp.Config{Interface: "boards0", ServerIP: serverIP, Mode: dhcp.Proxy},
		HTTPPort: 8080, NodePort: 8443, Unknown: registry.Accept, Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

func newServer(t *testing.T, dir string, change func(*Options)) (*Server, *said) {
	t.Helper()
	log := new(said)
	o := options(dir, log)
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.files.Close() })
	return s, log
}
