package netboottest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/tools/netboot/dhcp"
	"machined/tools/netboot/registry"
)

// TestPowerLoss takes the server's power away in the middle of a transfer. Another
// life of it knows the address and the token of the board, which tries again.
func TestPowerLoss(t *testing.T) {
	need(t, "qemu-system-x86_64", ovmf)
	s := serve(t, directory(t, x86), pool...)
	v := power(t, machine{n: 1, nic: noROM})
	eventually(t, "a transfer is under way", func() (bool, string) {
		b, _ := s.board(v.mac)
		return b.Stage == registry.Loading && b.Percent >= 10 && b.Percent < 90, "at " + string(b.Stage)
	})
	s.kill()
	before, secret := lease(t, s.dir, v.mac), token(t, s.dir, v.mac)
	time.Sleep(time.Second)
	s.start()
	restarted := time.Now()
	again := false
	for time.Since(restarted) < 20*time.Second && !again {
		time.Sleep(200 * time.Millisecond)
		b, ok := s.board(v.mac)
		again = ok && b.Last.After(restarted)
	}
	if again {
		t.Logf("the firmware tried again after %v", time.Since(restarted).Round(100*time.Millisecond))
	} else {
		t.Log("the firmware gave up, and is reset")
		v.reset()
	}
	b := v.up(s)
	judge(t, b, "pxe, x86-64 UEFI", "x86_64-uefi/uki.efi")
	if after := lease(t, s.dir, v.mac); after != before || b.Address != before {
		t.Errorf("the board's address is %s, and the lease's %s; want %s as before", b.Address, after, before)
	}
	if token(t, s.dir, v.mac) != secret {
		t.Errorf("the board's token is another one; want the one from before")
	}
	for _, name := range []string{"boards.json.", "leases.json."} {
		if left, _ := filepath.Glob(filepath.Join(s.dir, "state", name+"*")); len(left) > 0 {
			t.Errorf("%q are left in the state; want none", left)
		}
	}
}

// lease returns the address that a board has by the file.
func lease(t *testing.T, dir, mac string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "state/leases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Leases []dhcp.Lease }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatalf("the leases are %s: %v", text, err)
	}
	for _, l := range file.Leases {
		if l.MAC.String() == mac {
			return l.Address.String()
		}
	}
	t.Fatalf("the leases are %s; want one of %s", text, mac)
	return ""
}

// token returns what a board has to show by the file.
func token(t *testing.T, dir, mac string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "state/boards.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Board registry.Board
		Grant struct{ Token string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, k := range list {
		if k.Board.MAC == mac && k.Grant.Token != "" {
			return k.Grant.Token
		}
	}
	t.Fatalf("the server keeps no token of %s", mac)
	return ""
}

// TestHold has a board wait until a person accepts it, and be ignored after that.
func TestHold(t *testing.T) {
	need(t, "qemu-system-x86_64", ovmf, "curl")
	s := serve(t, directory(t, x86), append([]string{"--unknown", "hold"}, pool...)...)
	v := power(t, machine{n: 1, nic: noROM})
	b := s.waitStage(v.mac, registry.Held)
	if b.Config != "" {
		t.Errorf("a board that is held has got the config %s", b.Config)
	}
	if made, _ := filepath.Glob(filepath.Join(s.dir, "nodes/*")); len(made) > 0 {
		t.Errorf("%q were made for a board that is held", made)
	}
	s.decide(v.mac, registry.Accept)
	b = v.up(s)
	if b.Decision != registry.Accept {
		t.Errorf("the decision is %q; want accept", b.Decision)
	}
	s.decide(v.mac, registry.Ignore)
	loads := strings.Count(s.said(), "tftp started")
	v.reset()
	s.waitStage(v.mac, registry.Ignored)
	time.Sleep(5 * time.Second)
	if now := strings.Count(s.said(), "tftp started"); now != loads {
		t.Errorf("a board that is ignored began %d transfers", now-loads)
	}
	// It gets nothing by asking without DHCP either: somebody else at its address.
	v.off()
	h := lan.Plug(t, v.mac)
	h.Run(t, "ip", "addr", "add", b.Address+"/24", "dev", "eth0")
	for _, path := range []string{"x86_64-uefi/uki.efi", "boot.ipxe"} {
		code := h.Run(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://"+serverIP+":8080/"+path)
		if code != "404" {
			t.Errorf("%s for a board that is ignored answers %s; want 404", path, code)
		}
	}
}

// TestEight boots as many boards at once.
func TestEight(t *testing.T) {
	need(t, "qemu-system-x86_64", ipxeROM)
	s := serve(t, biosDirectory(t), pool...)
	var all []*vm
	for n := range 8 {
		all = append(all, power(t, machine{n: n + 1, bios: true, nic: withIPXE, memoryMB: 384}))
	}
	begun := time.Now()
	addresses := make(map[string]string)
	for _, v := range all {
		b := v.up(s)
		judge(t, b, "ipxe, x86 BIOS", "x86_64-uefi/initramfs.img")
		if other, twice := addresses[b.Address]; twice {
			t.Errorf("%s and %s have the address %s", other, v.mac, b.Address)
		}
		addresses[b.Address] = v.mac
	}
	t.Logf("eight boards are up after %v", time.Since(begun).Round(time.Second))
}
