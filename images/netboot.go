package images

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"machined/board"
	"machined/images/fat32"
	"machined/images/netboot"
	"machined/images/parts"
	"machined/rpi"
)

// NetbootOptions says what to build for a netboot directory.
type NetbootOptions struct {
	Board board.Board
	Store *parts.Store
	// CA is the certificate in PEM of the authority that signs the netboot server.
	CA []byte
	// Config is put into the initramfs, for nodes whose server gives them none;
	// nil for none. The caller has validated it.
	Config []byte
	// Progress is told of the bytes of a file that are written so far and in all;
	// may be nil.
	Progress func(file string, done, total int64)
}

// Names of the files of a board in a netboot directory.
const (
	netbootUKI       = "uki.efi"
	netbootKernel    = "kernel"
	netbootInitramfs = "initramfs.img"
	netbootDisk      = "disk.img"
	piKernel         = "kernel8.img"
)

// piBoard is the one that the Raspberry Pi's firmware boots.
const piBoard = "rpi-3a-plus"

// BuildNetboot writes what the board is booted by over the network, and installed
// from, below dir, and lists it in dir's index. Each file takes the place of an
// earlier one when it is complete, and the index comes last. The same inputs make
// the same bytes.
func BuildNetboot(dir string, o NetbootOptions) (built netboot.Board, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("build the netboot files of %s in %s: %w", o.Board.Name, dir, err)
		}
	}()
	index, err := netboot.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		index, err = netboot.Index{Format: netboot.Format}, nil
	}
	if err != nil {
		return netboot.Board{}, err
	}
	n := &netbootBuild{NetbootOptions: o, dir: dir}
	if err := os.MkdirAll(n.path(""), 0o755); err != nil {
		return netboot.Board{}, err
	}
	if err := n.build(); err != nil {
		return netboot.Board{}, err
	}
	if index.Boards == nil {
		index.Boards = make(map[string]netboot.Board)
	}
	index.Boards[o.Board.Name] = n.built
	text, err := index.Bytes()
	if err != nil {
		return netboot.Board{}, err
	}
	return n.built, ReplaceFile(filepath.Join(dir, netboot.IndexName), text, 0o644)
}

// netbootBuild is a build under way.
type netbootBuild struct {
	NetbootOptions
	dir   string
	built netboot.Board
}

// path is where a file of the board is.
func (n *netbootBuild) path(name string) string {
	return filepath.Join(n.dir, n.Board.Name, filepath.FromSlash(name))
}

func (n *netbootBuild) build() error {
	n.built = netboot.Board{Version: n.Store.Index.Version, Arch: n.Board.Arch, Arguments: netbootArguments(n.Board, n.Store)}
	steps := []func() error{n.initramfs, n.kernel}
	if n.Board.Firmware == board.UEFI {
		steps = append(steps, n.uki)
	}
	if n.Board.Name == piBoard {
		steps = append(steps, n.tree) // with the licences
	} else {
		steps = append(steps, n.licenses)
	}
	for _, step := range append(steps, n.disk) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// netbootArguments are the kernel's without the server's. The board is among them,
// since a PC with a BIOS cannot be told from another.
func netbootArguments(b board.Board, store *parts.Store) string {
	return arguments(b, store) + " machined.board=" + b.Name
}

// write makes a file of the board, and returns its entry in the index. size is
// about what write writes, in bytes.
func (n *netbootBuild) write(name string, size int64, write func(w io.Writer) error) (netboot.File, error) {
	path := n.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return netboot.File{}, err
	}
	if err := writeWhole(path, size, n.progress(path), write); err != nil {
		return netboot.File{}, fmt.Errorf("write %s: %w", path, err)
	}
	sum, length, err := parts.Hash(path)
	return netboot.File{Path: n.Board.Name + "/" + name, Size: length, SHA256: sum}, err
}

// progress is Progress for one file.
func (n *netbootBuild) progress(path string) func(done, total int64) {
	if n.Progress == nil {
		return nil
	}
	return func(done, total int64) { n.Progress(path, done, total) }
}

// place copies a source into the board's directory.
func (n *netbootBuild) place(s source) (netboot.File, error) {
	f, _, err := s.file(n.Store, "")
	if err != nil {
		return netboot.File{}, err
	}
	return n.write(s.path, f.Size, func(w io.Writer) error { return copyFile(w, f) })
}

func copyFile(w io.Writer, f fat32.File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}

// kernel places the kernel for loaders that take it by itself.
func (n *netbootBuild) kernel() (err error) {
	name := netbootKernel
	if n.Board.Name == piBoard {
		name = piKernel
	}
	n.built.Kernel, err = n.place(source{path: name, part: "kernel/" + kernelOf(n.Board)})
	return err
}

// uki makes the UKI of the kernel and the initramfs that were placed.
func (n *netbootBuild) uki() error {
	part, err := n.Store.Part("stub/" + n.Board.Arch + ".efi")
	if err != nil {
		return err
	}
	if part.Size > maxStub {
		return fmt.Errorf("use the stub of systemd: it has %d bytes, and %d are the most", part.Size, maxStub)
	}
	stub, err := os.ReadFile(n.Store.Path(part.Name))
	if err != nil {
		return err
	}
	open := func(f netboot.File) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return os.Open(filepath.Join(n.dir, filepath.FromSlash(f.Path))) }
	}
	kernel, err := kernelSection(n.built.Kernel.Size, open(n.built.Kernel))
	if err != nil {
		return err
	}
	sections := []ukiSection{
		dataSection(".osrel", []byte(osRelease(n.built.Version))),
		dataSection(".cmdline", []byte(n.built.Arguments+strings.Repeat(" ", netboot.PlaceholderLength))),
		{name: ".initrd", size: n.built.Initramfs.Size, open: open(n.built.Initramfs)},
		kernel,
	}
	size := part.Size + n.built.Initramfs.Size + kernel.size
	f, err := n.write(netbootUKI, size, func(w io.Writer) error { return writeUKI(w, stub, sections) })
	n.built.UKI = &netboot.UKI{File: f, Placeholder: netboot.Placeholder{
		Offset: sections[1].offset + int64(len(n.built.Arguments)), Length: netboot.PlaceholderLength,
	}}
	return err
}

// osRelease names the UKI in a loader's menu (os-release(5)).
func osRelease(version string) string {
	return fmt.Sprintf("ID=machined\nNAME=machined\nPRETTY_NAME=\"machined %s\"\nVERSION_ID=%s\n", version, version)
}

// tree places what the Raspberry Pi's firmware asks TFTP for. There are no slots,
// and so no os_prefix.
func (n *netbootBuild) tree() error {
	n.built.Tree = n.Board.Name
	sources := append(append(contentSources(n.Board, n.Store), bootSources(n.Board, n.Store)...), otherModels()...)
	for _, s := range sources {
		switch s.path {
		case systemFile, netbootInitramfs, piKernel:
			continue // in the initramfs, or there already
		case rpi.ConfigFile:
			_, own, _ := strings.Cut(string(s.data), "\n") // the line of os_prefix
			_, own, _ = strings.Cut(own, "\n")             // and the one that explains it
			s.data = []byte(own)
		}
		if _, err := n.place(s); err != nil {
			return err
		}
	}
	return nil
}

// otherModels are the files of the models that boot from the same tree: a 3B, whose
// device tree differs, and a 4 with firmware of its own.
func otherModels() (files []source) {
	for _, dtb := range []string{"bcm2710-rpi-3-b.dtb", "bcm2711-rpi-4-b.dtb"} {
		files = append(files, source{path: dtb, part: "dtb/" + dtb})
	}
	for _, f := range []string{"start4.elf", "fixup4.dat", "start4cd.elf", "fixup4cd.dat"} {
		files = append(files, source{path: f, part: "firmware/" + f})
	}
	return files
}

// licenses places those of what the board's files are made of.
func (n *netbootBuild) licenses() error {
	for _, s := range append(contentSources(n.Board, n.Store), bootSources(n.Board, n.Store)...) {
		if !strings.HasPrefix(s.path, "licenses/") {
			continue
		}
		if _, err := n.place(s); err != nil {
			return err
		}
	}
	return nil
}

// disk makes the image that the board is installed from, with no config and no
// keys: those are the server's to give. Its manifest and bill of materials are
// beside it.
func (n *netbootBuild) disk() error {
	raw := n.path(netbootDisk)
	img, err := Build(raw, Options{Board: n.Board, Store: n.Store, Progress: n.progress(raw)})
	if err != nil {
		return err
	}
	defer os.Remove(raw)
	f, err := n.write(netbootDisk+".gz", img.Size, func(w io.Writer) error { return gzipFile(w, raw) })
	n.built.Image = netboot.Disk{File: f, DiskSize: img.Size}
	return err
}
