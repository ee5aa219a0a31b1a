package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"machined/board"
	"machined/images/oci"
)

// GuestImage is the reference of the image that Guest makes, and GuestProgram
// where the program is on a card that has it, and in the image.
const (
	GuestImage   = "machined.local/guest:1"
	GuestProgram = "/boot/programs/guest"
	guestInImage = "/guest"
)

// Guest builds the program that tests run on nodes of a board, and a container
// image of it, in dir.
func Guest(dir string, b board.Board) (program, image string, err error) {
	program, image = filepath.Join(dir, "guest-"+b.Arch), filepath.Join(dir, "guest-"+b.Arch+".tar")
	if err := Compile(program, b.Arch, "machined/tools/lab/guest"); err != nil {
		return "", "", fmt.Errorf("build the guest program: %w", err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", "", err
	}
	f, err := os.Create(image)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	_, err = oci.Write(f, oci.Image{
		Name: GuestImage, Arch: b.Arch, Entrypoint: []string{guestInImage},
		Files: []oci.File{{Path: "guest", Mode: 0o755, Data: content}},
	})
	if err != nil {
		return "", "", fmt.Errorf("make the guest image: %w", err)
	}
	return program, image, f.Close()
}

// Compile builds a static program of the module for an architecture.
func Compile(program, arch, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
