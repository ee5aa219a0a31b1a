package rpi

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

// userConfig has lines of the user's, in which nothing may be lost.
var userConfig = Config('A', "enable_uart=1") + "\r\n# mine: os_prefix=C/\n[pi3]\ndtparam=audio=on\n[all]\ndtoverlay=x\n" + strings.Repeat("# long\n", 200) + "last"

// card has both slots whole.
func card(config string) *fake.BootFiles {
	b := &fake.BootFiles{Sum: func(data []byte) [32]byte { return sha256.Sum256(data) }}
	b.Put(ConfigFile, []byte(config))
	for _, slot := range []string{"A", "B"} {
		m := hal.SlotManifest{Version: "v1", Board: "rpi-3a-plus"}
		for _, path := range []string{kernelFile, initramfsFile, readmeFile} {
			b.Put(slot+"/"+path, []byte(path))
			m.Files = append(m.Files, hal.SlotFile{Path: path, Size: int64(len(path)), SHA256: sha256.Sum256([]byte(path))})
		}
		b.Put(slot+"/"+hal.SlotManifestName, []byte(m.String()))
	}
	return b
}

func read(t *testing.T, b *fake.BootFiles, path string) string {
	t.Helper()
	data, err := b.Read(path)
	if err != nil && !errors.Is(err, hal.ErrNotFound) {
		t.Fatal(err)
	}
	return string(data)
}

// TestUserLinesAreKept flips back and forth: all but one byte stays, and
// tryboot.txt is the whole of config.txt.
func TestUserLinesAreKept(t *testing.T) {
	flipped := strings.Replace(userConfig, "os_prefix=A/", "os_prefix=B/", 1)
	b := card(userConfig)
	l := &Bootloader{Files: b}
	argument, err := l.Try("A", "B")
	if err != nil || argument != TrybootArgument {
		t.Fatalf("Try = %q, %v; want %q", argument, err, TrybootArgument)
	}
	if got := read(t, b, TrybootFile); got != flipped {
		t.Errorf("tryboot.txt is %q; want config.txt with the other letter", got)
	}
	if got := read(t, b, ConfigFile); got != userConfig {
		t.Errorf("config.txt is %q after Try; want it as it was", got)
	}
	if err := l.Commit("B"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, b, ConfigFile); got != flipped {
		t.Errorf("config.txt is %q after Commit; want it with the other letter", got)
	}
	if err := l.Abandon("B", "B"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, b, ConfigFile); got != userConfig {
		t.Errorf("config.txt is %q after the rollback; want it as it was", got)
	}
	if slices.Contains(b.Paths(), TrybootFile) {
		t.Error("tryboot.txt is left over")
	}
}

// TestConfigIsNeverRewritten has every config.txt that names no slot refused by
// all that would write: there is no way on which os_prefix gets lost.
func TestConfigIsNeverRewritten(t *testing.T) {
	for _, config := range []string{
		"", "arm_64bit=1\n", "os_prefix=C/\n", "os_prefix=A/\nos_prefix=B/\n", "[pi3]\nos_prefix=A/\n", strings.Repeat("#\n", 300) + "os_prefix=A/\n",
	} {
		b := card(config)
		l := &Bootloader{Files: b}
		_, tryErr := l.Try("A", "B")
		_, stageErr := l.Stage("A", hal.SlotContent{})
		for name, err := range map[string]error{"Try": tryErr, "Stage": stageErr, "Commit": l.Commit("B"), "Abandon": l.Abandon("A", "A")} {
			if err == nil {
				t.Errorf("%s with config.txt %.20q succeeds; want an error", name, config)
			}
		}
		if got := read(t, b, ConfigFile); got != config || b.Unlocked {
			t.Errorf("config.txt is %q; want it untouched, and the partition locked", got)
		}
		if st, err := l.State("A"); err != nil || st.Problem == "" || st.Default != "" {
			t.Errorf("State with config.txt %.20q = %+v, %v; want a problem and no default", config, st, err)
		}
	}
}

// TestTrybootIsComparedFirst has a card that reads back something else: a board
// that is told to boot from that hangs until its power is cut.
func TestTrybootIsComparedFirst(t *testing.T) {
	b := card(userConfig)
	l := &Bootloader{Files: damaging{b}}
	argument, err := l.Try("A", "B")
	if argument != "" || !errors.Is(err, hal.ErrReadBack) {
		t.Errorf("Try = %q, %v; want no argument, and %v", argument, err, hal.ErrReadBack)
	}
	if slices.Contains(b.Paths(), TrybootFile) {
		t.Error("the damaged tryboot.txt is left over")
	}
	if b.Unlocked {
		t.Error("the partition is left writable")
	}
}

// damaging has a card that damages tryboot.txt between write and read.
type damaging struct{ *fake.BootFiles }

func (d damaging) Hash(path string) ([32]byte, error) {
	if path == TrybootFile {
		d.Damage(path, 20)
	}
	return d.BootFiles.Hash(path)
}

func TestFlipFirst(t *testing.T) {
	b := card(userConfig)
	l := &Bootloader{Files: b, Strategy: FlipFirst}
	if argument, err := l.Try("A", "B"); argument != "" || err != nil {
		t.Fatalf("Try = %q, %v; want no argument", argument, err)
	}
	if slot, err := FindSlot([]byte(read(t, b, ConfigFile))); slot.Letter != 'B' || err != nil || slices.Contains(b.Paths(), TrybootFile) {
		t.Errorf("config.txt names %c, %v; want B, and no tryboot.txt", slot.Letter, err)
	}
	// Whatever Strategy says at the next boot, the trial is known from the files.
	if st, err := (&Bootloader{Files: b}).State("B"); err != nil || st.Default != "A" || st.Trial != "B" || st.Slots[1].State != hal.SlotTrial || st.Problem != "" {
		t.Errorf("State = %+v, %v; want B on trial", st, err)
	}
}

func TestProblems(t *testing.T) {
	remove := func(path string) func(b *fake.BootFiles) {
		return func(b *fake.BootFiles) {
			b.Unlocked = true
			if err := b.Remove(path); err != nil {
				panic(err)
			}
			b.Unlocked = false
		}
	}
	put := func(path, text string) func(b *fake.BootFiles) {
		return func(b *fake.BootFiles) { b.Put(path, []byte(text)) }
	}
	for _, c := range []struct {
		name    string
		running string
		change  func(b *fake.BootFiles)
		want    string // in the problem; empty for none
	}{
		{"nothing wrong", "A", func(*fake.BootFiles) {}, ""},
		{"no kernel in the default slot", "A", remove("A/" + kernelFile), "slot A, which is not whole: kernel8.img is missing"},
		{"a truncated kernel", "A", put("A/"+kernelFile, "x"), "another size"},
		{"no manifest", "A", remove("A/manifest.json"), "no manifest.json"},
		{"a damaged manifest", "A", put("A/manifest.json", "{"), "damaged"},
		{"no kernel in the other slot", "A", remove("B/" + kernelFile), ""},
		{"another slot runs", "B", func(*fake.BootFiles) {}, "slot B runs though config.txt names slot A"},
		{"another slot runs, on trial", "B", put(TrybootFile, Config('B')), ""},
		{"a trial is planned", "A", put(TrybootFile, Config('B')), ""},
		{"a damaged tryboot.txt", "A", put(TrybootFile, "os_"), "tryboot.txt is damaged"},
	} {
		b := card(userConfig)
		c.change(b)
		st, err := (&Bootloader{Files: b}).State(c.running)
		if err != nil || !strings.Contains(st.Problem, c.want) || (c.want == "") != (st.Problem == "") {
			t.Errorf("%s: the problem is %q, %v; want %q", c.name, st.Problem, err, c.want)
		}
	}
}

func TestRecover(t *testing.T) {
	for _, c := range []struct {
		name, running, config, tryboot, status string
		wantTryboot, wantStatus                string // of slot B
	}{
		{"nothing to do", "A", "A", "", "", "", ""},
		{"a trial is under way", "B", "A", Config('B'), staged, Config('B'), staged},
		{"a trial has ended", "A", "A", Config('B'), staged, "", failed},
		{"a trial of a slot that was good has ended", "A", "A", Config('B'), "", "", failed},
		{"a commit was cut off after the flip", "B", "B", Config('B'), staged, "", ""},
		{"a commit was cut off near its end", "B", "B", Config('B'), "", "", ""},
		{"tryboot.txt is damaged", "A", "A", "os_", staged, "", staged},
		{"a trial by flip", "B", "B", "", staged, "", staged},
	} {
		b := card(Config(c.config[0]))
		if c.tryboot != "" {
			b.Put(TrybootFile, []byte(c.tryboot))
		}
		if c.status != "" {
			b.Put("B/status", []byte(c.status))
		}
		err := (&Bootloader{Files: b}).Recover(c.running)
		if got, status := read(t, b, TrybootFile), read(t, b, "B/status"); err != nil || got != c.wantTryboot || status != c.wantStatus {
			t.Errorf("%s: Recover = %v, with tryboot.txt %q and status %q; want %q and %q", c.name, err, got, status, c.wantTryboot, c.wantStatus)
		}
	}
}

// TestContentForTheBoard refuses what the firmware would not boot.
func TestContentForTheBoard(t *testing.T) {
	files := func(paths ...string) (c hal.SlotContent) {
		c = hal.SlotContent{Version: "v2", Board: "b", Arguments: "quiet"}
		for _, p := range paths {
			c.Files = append(c.Files, hal.SlotFile{Path: p})
		}
		return c
	}
	own := Config('A', "device_tree=")
	for _, c := range []struct {
		name, config string
		content      hal.SlotContent
		ok           bool
	}{
		{"all", userConfig, files(kernelFile, initramfsFile, readmeFile, "x.dtb"), true},
		{"no kernel", userConfig, files(initramfsFile, readmeFile, "x.dtb"), false},
		{"no initramfs", userConfig, files(kernelFile, readmeFile, "x.dtb"), false},
		{"no overlays/README", userConfig, files(kernelFile, initramfsFile, "x.dtb"), false},
		{"no device tree", userConfig, files(kernelFile, initramfsFile, readmeFile, "dir/x.dtb"), false},
		{"a board that brings its own", own, files(kernelFile, initramfsFile), true},
		{"a file of the node's", userConfig, files(kernelFile, initramfsFile, readmeFile, "x.dtb", "STATUS"), false},
	} {
		w, err := (&Bootloader{Files: card(c.config)}).Stage("A", c.content)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, hal.ErrInvalid) {
			t.Errorf("%s: Stage = %v; want success %v", c.name, err, c.ok)
		}
		if err == nil {
			if err := w.Abort(); err != nil {
				t.Errorf("%s: Abort = %v", c.name, err)
			}
		}
	}
}

// TestFaultsLeaveThePartitionLocked has each call fail in turn.
func TestFaultsLeaveThePartitionLocked(t *testing.T) {
	for _, method := range []string{"Create", "Write", "Close", "Flush", "Hash", "Overwrite", "Remove"} {
		for nth := range 4 {
			b := card(userConfig)
			b.Put("B/status", []byte(staged))
			b.Fail(method, nth+1, hal.ErrNoDevice)
			l := &Bootloader{Files: b}
			_, err := l.Try("A", "B")
			if err == nil {
				err = l.Commit("B")
			}
			if b.Unlocked {
				t.Errorf("%s fails at call %d (%v), and the partition is left writable", method, nth+1, err)
			}
			if slot, err := FindSlot([]byte(read(t, b, ConfigFile))); err != nil {
				t.Errorf("%s fails at call %d: config.txt names %v, %v", method, nth+1, slot, err)
			}
		}
	}
}

// TestProbeTrial tries the slot that runs, by a file that has its arguments and the
// mark, and that is gone after the next boot.
func TestProbeTrial(t *testing.T) {
	b := card(userConfig)
	b.Put("A/"+hal.CommandLineName, []byte("console=x machined.slot=A\n"))
	l := &Bootloader{Files: b}
	argument, err := l.ProbeTrial("A")
	if err != nil || argument != TrybootArgument {
		t.Fatalf("ProbeTrial = %q, %v; want %q", argument, err, TrybootArgument)
	}
	if got, want := read(t, b, TrybootFile), userConfig+"\n[all]\ncmdline=probe.txt\n"; got != want {
		t.Errorf("tryboot.txt is %q; want %q", got, want)
	}
	if got, want := read(t, b, "A/probe.txt"), "console=x machined.slot=A machined.probe=1\n"; got != want {
		t.Errorf("probe.txt is %q; want %q", got, want)
	}
	st, err := l.State("A")
	if err != nil || st.Trial != "" || st.Problem != "" || st.Slots[0].State != hal.SlotGood {
		t.Errorf("State = %+v, %v; want slot A good, no trial and no problem", st, err)
	}
	if err := l.Recover("A"); err != nil {
		t.Fatal(err)
	}
	if paths := b.Paths(); slices.Contains(paths, TrybootFile) || slices.Contains(paths, "A/probe.txt") {
		t.Errorf("after the boot there are %v", paths)
	}
	if _, err := l.ProbeTrial("B"); !errors.Is(err, hal.ErrInvalid) {
		t.Errorf("ProbeTrial of the slot that does not run = %v; want %v", err, hal.ErrInvalid)
	}
}
