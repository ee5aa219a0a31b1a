package images_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"machined/board"
	"machined/tools/piboot"
)

// TestPiFirmwareChoosesSlot has the model of the firmware read the images. As
// built they boot slot A; one byte in one sector makes it slot B.
func TestPiFirmwareChoosesSlot(t *testing.T) {
	store := fakeStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		if b.Firmware != board.RaspberryPi {
			t.Skip("UEFI does not read config.txt")
		}
		image := build(t, fakeOptions(b, store)).Path
		checkChoice(t, b, image, "A")
		flipSlot(t, image)
		checkChoice(t, b, image, "B")
		checkVolume(t, image)
	})
}

func checkChoice(t *testing.T, b board.Board, image, slot string) {
	t.Helper()
	boot, closer, err := piboot.OpenImage(image)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	// The flag of a trial boot changes nothing while there is no tryboot.txt.
	for _, tryboot := range []bool{false, true} {
		choice, err := piboot.Decide(boot, tryboot)
		if err != nil {
			t.Fatal(err)
		}
		prefix, tree, overlays := slot+"/", "", []string(nil)
		if b.Name == "rpi-3a-plus" {
			tree, overlays = prefix+"bcm2710-rpi-3-b-plus.dtb", []string{prefix + "overlays/disable-bt.dtbo"}
		}
		for _, c := range []struct{ what, got, want string }{
			{"config file", choice.ConfigFile, "config.txt"},
			{"start file", choice.Start, "start_cd.elf"}, // gpu_mem=16
			{"fixup file", choice.Fixup, "fixup_cd.dat"},
			{"prefix", choice.OSPrefix, prefix},
			{"kernel", choice.Kernel, prefix + "kernel8.img"},
			{"initramfs", strings.Join(choice.Initramfs, " "), prefix + "initramfs.img"},
			{"device tree", choice.DeviceTree, tree},
			{"command line file", choice.CmdlineFile, prefix + "cmdline.txt"},
			{"command line", choice.Cmdline, strings.TrimSpace(readFile(t, boot, prefix+"cmdline.txt"))},
		} {
			if c.got != c.want {
				t.Errorf("tryboot=%v: the %s is %q; want %q", tryboot, c.what, c.got, c.want)
			}
		}
		if !slices.Equal(choice.Overlays, overlays) {
			t.Errorf("tryboot=%v: the overlays are %q; want %q", tryboot, choice.Overlays, overlays)
		}
		// Of a trial it says that there is nothing to try.
		if !choice.Arm64 || choice.PrefixDropped || len(choice.Warnings) != 0 && !tryboot {
			t.Errorf("tryboot=%v: the firmware chooses %+v; want a 64-bit kernel and no warning", tryboot, choice)
		}
	}
}

// flipSlot changes the slot's letter where it lies on the disk. The file
// begins at a sector, so the letter is in its first.
func flipSlot(t *testing.T, image string) {
	t.Helper()
	contents, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("os_prefix=A/\n")
	at := bytes.Index(contents, text)
	if at < 0 || at%512 != 0 || bytes.Contains(contents[at+1:], text) {
		t.Fatalf("os_prefix is at byte %d of the image; want it once, at the beginning of a sector", at)
	}
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("B"), int64(at+len("os_prefix="))); err != nil {
		t.Fatal(err)
	}
}

// TestConfigLines keeps the lines of config.txt below the length at which the
// firmware cuts them (older firmware: 78).
func TestConfigLines(t *testing.T) {
	v, _ := volume(t, build(t, fakeOptions(boardNamed(t, "rpi-3a-plus"), fakeStore(t))).Path)
	for line := range strings.Lines(readFile(t, v, "config.txt")) {
		if len(line) > 78 {
			t.Errorf("config.txt has a line of %d characters; want at most 78: %s", len(line), line)
		}
	}
}
