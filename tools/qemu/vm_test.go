//go:build linux

package qemu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/board"
)

// launchScript starts a machine whose QEMU is a shell script.
func launchScript(t *testing.T, console *bytes.Buffer, script string) *VM {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "qemu-system-x86_64"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	b, ok := board.ByName("x86_64-uefi")
	if !ok {
		t.Fatal("there is no board x86_64-uefi")
	}
	v := &VM{Options: Options{Board: b, MemoryMB: 64}, dir: t.TempDir(), console: newWatcher(console), done: make(chan struct{})}
	if err := os.WriteFile(filepath.Join(v.dir, "efivars.fd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.launch(); err != nil {
		t.Fatal(err)
	}
	go v.supervise()
	t.Cleanup(v.Close)
	return v
}

func TestWait(t *testing.T) {
	for _, c := range []struct {
		name, script string
		says         string // in the error; none when empty
	}{
		{"switched off", "echo 'reboot: Power down'", ""},
		{"failed", "echo 'qemu: no such device' >&2; exit 1", "QEMU ended: exit status 1; it said: qemu: no such device"},
	} {
		var console bytes.Buffer
		v := launchScript(t, &console, c.script)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := v.Wait(ctx)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Wait() = %v; want %q", c.name, err, c.says)
		}
		if v.Starts() != 1 || v.Started().IsZero() || console.Len() == 0 {
			t.Errorf("%s: started %d times at %v, console %q; want once, with a console", c.name, v.Starts(), v.Started(), console.String())
		}
	}
}

// TestKill cuts the power of a machine that would run for ever; twice is no
// harm, and neither is one that is off.
func TestKill(t *testing.T) {
	v := launchScript(t, nil, "exec sleep 1000")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := v.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait() = %v; want that the time is over", err)
	}
	v.Kill()
	v.Kill()
	if err := v.Wait(context.Background()); err != nil {
		t.Errorf("Wait() = %v after the power was cut; want nil", err)
	}
	if err := v.launch(); err == nil || !strings.Contains(err.Error(), "switched off") {
		t.Errorf("launch() = %v after the power was cut; want a refusal", err)
	}
}

func TestStartFails(t *testing.T) {
	b, _ := board.ByName("rpi-3a-plus")
	image := filepath.Join(t.TempDir(), "empty.img")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	for path, says := range map[string]string{image: "MBR signature", image + ".none": "no such file"} {
		if _, err := Start(Options{Board: b, Image: path}); err == nil || !strings.Contains(err.Error(), "start a rpi-3a-plus") || !strings.Contains(err.Error(), says) {
			t.Errorf("Start(%s) = %v; want %q", path, err, says)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v; want nothing", left, err)
	}
}
