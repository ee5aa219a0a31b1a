package fat32

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/diskfs/go-diskfs"
)

// want holds the contents that a volume must give back, by path.
type want map[string][]byte

// makeVolume writes want to a fresh sparse file.
func makeVolume(t *testing.T, size int64, contents want, emptyDirs ...string) string {
	t.Helper()
	var files []File
	for path, data := range contents {
		files = append(files, text(path, string(data)))
	}
	for _, d := range emptyDirs {
		files = append(files, File{Path: d})
	}
	image := filepath.Join(t.TempDir(), "volume.img")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := Write(f, size, files, testOptions()); err != nil {
		t.Fatal(err)
	}
	return image
}

func smallWant() want {
	return want{
		"config.txt":    []byte("os_prefix=A/\n"),
		"BOOTCODE.BIN":  []byte("not really"),
		"A/kernel8.img": randomBytes(3*mib+17, 1),
		"A/overlays/a long name, with+odd=[signs].dtbo": randomBytes(700, 2),
		"A/overlays/README":                             {},
		"A/überläufe-日本.txt":                            []byte("unicode"),
		"A/🙂":                                           []byte("beyond the basic plane"),
		"bcm2710-rpi-3-b-plus.dtb":                      randomBytes(512, 3),
		"bcm2710-rpi-3-b.dtb":                           randomBytes(513, 4),
		strings.Repeat("n", 255):                        []byte("the longest"),
		strings.Repeat("m", 26):                         []byte("two entries, exactly full"),
		"1/2/3/4/5/6/7/8/9/10/11/12":                    []byte("deep"),
		"A/overlays/FOO~1.TXT":                          []byte("its own name"),
		"A/overlays/foo and more.txt":                   []byte("must not be FOO~1.TXT"),
	}
}

// randomTree is the same for the same seed.
func randomTree(seed uint64) want {
	r := rand.New(rand.NewPCG(seed, 7))
	letters := []rune("abcXYZ019 .-_+=[]~éßжλ日本🙂")
	dirs, tree := []string{""}, want{}
	used := map[string]bool{}
	for i := range 300 + r.IntN(300) {
		name := []rune{letters[r.IntN(6)]}
		for range r.IntN(60) {
			name = append(name, letters[r.IntN(len(letters))])
		}
		name = append(name, []rune(fmt.Sprint(i))...) // no two alike, no dot at the end
		path := dirs[r.IntN(len(dirs))] + string(name)
		if used[foldName(path)] {
			continue
		}
		used[foldName(path)] = true
		if r.IntN(12) == 0 {
			dirs = append(dirs, path+"/")
			path += "/x"
		}
		size := r.IntN(3000)
		if r.IntN(5) == 0 {
			size = 0
		}
		tree[path] = randomBytes(size, uint64(i))
	}
	return tree
}

func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// checkFsck requires that fsck.fat has nothing to say but its summary.
func checkFsck(t *testing.T, image string) {
	t.Helper()
	out, err := exec.Command(tool(t, "fsck.fat"), "-n", "-V", image).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, l := range lines {
		known := strings.HasPrefix(l, "fsck.fat ") || strings.HasPrefix(l, "Starting check/repair") ||
			strings.HasPrefix(l, "Starting verification") || strings.Contains(l, " files, ")
		if !known {
			t.Errorf("fsck.fat says %q", l)
		}
	}
	if err != nil {
		t.Errorf("fsck.fat: %v\n%s", err, out)
	}
}

func TestFsck(t *testing.T) {
	for _, size := range []int64{34 * mib, 64 * mib, 100 * mib, 300 * mib, 9 << 30} {
		t.Run(fmt.Sprint(size/mib, "MiB"), func(t *testing.T) {
			checkFsck(t, makeVolume(t, size, smallWant(), "empty/"))
		})
	}
	t.Run("nothing", func(t *testing.T) { checkFsck(t, makeVolume(t, 64*mib, nil)) })
	t.Run("full to the last cluster", func(t *testing.T) {
		geo, err := chooseGeometry(34 * mib)
		if err != nil {
			t.Fatal(err)
		}
		all := int(int64(geo.clusters-1) * geo.clusterBytes())
		checkFsck(t, makeVolume(t, 34*mib, want{"ALL": randomBytes(all, 1)}))
	})
}

// The label must be where blkid, and with it udev, looks for it.
func TestLabelAndSerial(t *testing.T) {
	out, err := exec.Command(tool(t, "blkid"), "-p", "-o", "export", makeVolume(t, 64*mib, nil)).CombinedOutput()
	if err != nil {
		t.Fatalf("blkid: %v\n%s", err, out)
	}
	for _, line := range []string{"LABEL=BOOT", "UUID=1234-ABCD", "TYPE=vfat", "VERSION=FAT32"} {
		if !strings.Contains(string(out), line+"\n") {
			t.Errorf("blkid does not say %s:\n%s", line, out)
		}
	}
}

func TestMtools(t *testing.T) {
	mcopy := tool(t, "mcopy")
	contents := smallWant()
	image := makeVolume(t, 64*mib, contents)
	for path, data := range contents {
		if strings.Contains(path, "🙂") {
			continue // mtools reads one UTF-16 unit a character
		}
		// mtools takes the path for a pattern.
		pattern := strings.NewReplacer("[", `\[`, "]", `\]`).Replace(path)
		cmd := exec.Command(mcopy, "-i", image, "::"+pattern, "-")
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		got, err := cmd.Output()
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("mcopy of %q gave %d bytes, %v; want %d", path, len(got), err, len(data))
		}
	}
}

func TestDiskfs(t *testing.T) {
	contents := smallWant()
	d, err := diskfs.Open(makeVolume(t, 64*mib, contents), diskfs.WithOpenMode(diskfs.ReadOnly))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	volume, err := d.GetFilesystem(0)
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range contents {
		if len(data) == 0 || strings.Contains(path, "🙂") {
			continue // it fails on empty files and on pairs of surrogates
		}
		got, err := fs.ReadFile(volume, path)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("go-diskfs read %d bytes of %q, %v; want %d", len(got), path, err, len(data))
		}
	}
}

// mount loop-mounts image read-only, or skips with the reason.
func mount(t *testing.T, image string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting takes root")
	}
	dir := t.TempDir()
	out, err := exec.Command(tool(t, "mount"), "-t", "vfat", "-o", "loop,ro,utf8,iocharset=ascii", image, dir).CombinedOutput()
	if err != nil {
		t.Skipf("mounting is not permitted or not supported here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}

func TestKernelMount(t *testing.T) {
	contents := smallWant()
	checkTree(t, mount(t, makeVolume(t, 64*mib, contents, "empty/")), contents, 1)
}

// checkTree requires exactly the files of contents below dir, besides
// emptyDirs directories without any.
func checkTree(t *testing.T, dir string, contents want, emptyDirs int) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if list, _ := os.ReadDir(path); len(list) == 0 {
				emptyDirs--
			}
			return nil
		}
		rel, _ := filepath.Rel(dir, path)
		data, ok := contents[rel]
		got, err := os.ReadFile(path)
		if !ok || err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
			t.Errorf("%q: %d bytes, %v; want %d (known: %t)", rel, len(got), err, len(data), ok)
		}
		seen++
		return nil
	})
	if err != nil || seen != len(contents) || emptyDirs != 0 {
		t.Errorf("the kernel sees %d files, error %v; want %d (empty directories missing: %d)", seen, err, len(contents), emptyDirs)
	}
}

// Random trees: to repeat a failure, run its subtest, whose name is the seed.
func TestRandomTrees(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			contents := randomTree(seed)
			image := makeVolume(t, 64*mib, contents)
			checkFsck(t, image)
			t.Run("mount", func(t *testing.T) { checkTree(t, mount(t, image), contents, 0) })
		})
	}
}
