package netboottest

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"machined/images/netboot"
	"machined/tools/netboot/pirom"
	"machined/tools/netboot/registry"
)

// TestPi loads a Raspberry Pi's tree as its boot ROM does, and then all files that
// the ROM has not asked for. No model of it boots from a network.
func TestPi(t *testing.T) {
	need(t)
	const board = "rpi-3a-plus"
	dir := directory(t, board)
	s := serve(t, dir, pool...)
	rom := pirom.Board{MAC: [6]byte{0xb8, 0x27, 0xeb, 0x2f, 0xaa, 0xeb}, Serial: 0xb22faaeb}
	h := lan.Plug(t, "b8:27:eb:2f:aa:eb")
	var setup pirom.Setup
	var err error
	h.Inside(t, func() { setup, err = configure(rom) })
	if err != nil || setup.Server.String() != serverIP {
		t.Fatalf("the board is set up as %v, %v; want the server %s", setup, err, serverIP)
	}
	h.Run(t, "ip", "addr", "add", setup.Address.String()+"/24", "dev", "eth0")
	l := &pirom.Loader{Server: netip.AddrPortFrom(setup.Server, 69), Local: setup.Address}
	h.Inside(t, func() { err = rom.Load(l) })
	if err != nil {
		t.Fatalf("%v; it asked for %q", err, l.Asked)
	}
	b, seen := s.board("b8:27:eb:2f:aa:eb")
	if !seen || b.Serial != "b22faaeb" || b.Stage != registry.Kernel || b.Name != board || b.Address != setup.Address.String() || b.Error != "" {
		t.Errorf("the server says %+v; want a %s with a kernel, and no error", b, board)
	}
	index, err := netboot.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^` + regexp.QuoteMeta(index.Boards[board].Arguments) + ` machined\.netboot=https://10\.77\.0\.1:8443 machined\.token=[0-9a-f]{64}\n$`)
	if got := l.Files["b22faaeb/cmdline.txt"]; !want.Match(got) {
		t.Errorf("cmdline.txt is %q; want %s", got, want)
	}
	count := 0
	h.Inside(t, func() { count, err = compare(l, filepath.Join(dir, index.Boards[board].Tree)) })
	if err != nil {
		t.Error(err)
	}
	t.Logf("it asked for %q, and %d files are as in the tree", l.Asked, count)
}

func configure(rom pirom.Board) (pirom.Setup, error) {
	conn, err := pirom.Listen("eth0")
	if err != nil {
		return pirom.Setup{}, err
	}
	defer conn.Close()
	return rom.Configure(conn)
}

// compare loads all files of the tree below the serial, as far as they were not
// loaded, and compares them. It returns their number.
func compare(l *pirom.Loader, tree string) (n int, faults error) {
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if err != nil || strings.HasPrefix(name, "disk.img") || name == "cmdline.txt" {
			return err // of no use to the firmware, or made
		}
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got, ok := l.Files["b22faaeb/"+name]
		if !ok {
			if got, err = l.Get("b22faaeb/" + name); err != nil {
				faults = errors.Join(faults, err)
				return nil
			}
		}
		n++
		if !bytes.Equal(got, want) {
			faults = errors.Join(faults, errors.New(name+" is not as on the disk"))
		}
		return nil
	})
	return n, errors.Join(faults, err)
}
