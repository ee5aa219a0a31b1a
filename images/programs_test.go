package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"machined/board"
)

// TestPrograms refuses what a board cannot run, before a card is written.
func TestPrograms(t *testing.T) {
	pi, _ := board.ByName("rpi-3a-plus")
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	build := func(arch string) string {
		out := filepath.Join(dir, arch)
		cmd := exec.Command("go", "build", "-o", out, source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return out
	}
	good, foreign := build("arm64"), build("amd64")
	files, list, err := programFiles(pi, map[string]string{"web": good, "db": good})
	if err != nil || len(files) != 2 || files[0].Path != "programs/db" || list[1].Path != "programs/web" || list[1].Size != files[1].Size {
		t.Errorf("programFiles = %v, %v, %v; want both, in order", files, list, err)
	}
	dynamic, err := exec.LookPath("mksquashfs")
	if err != nil {
		t.Fatal(err)
	}
	amd64, _ := board.ByName("x86_64-uefi")
	for _, tt := range []struct {
		board      board.Board
		name, path string
		want       string
	}{
		{pi, "web", foreign, "build it for that"},
		{pi, "web", source, "no Linux program"},
		{pi, "web", filepath.Join(dir, "none"), "no such file"},
		{pi, "a/b", good, "no name for it"},
		{pi, "..", good, "no name for it"},
		{amd64, "web", dynamic, "link it statically"},
	} {
		if _, _, err := programFiles(tt.board, map[string]string{tt.name: tt.path}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("program %s as %s on %s: %v; want an error with %q", tt.path, tt.name, tt.board.Name, err, tt.want)
		}
	}
	if _, _, err := programFiles(pi, map[string]string{"Web": good, "web": good}); err == nil {
		t.Error("two names that FAT takes for one are accepted")
	}
}
