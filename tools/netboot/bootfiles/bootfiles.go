// Package bootfiles is what a board loads from a netboot directory, by TFTP or HTTP:
// the files that `machinectl netboot build` made, and those that are made for each
// board, since they have its token.
package bootfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"machined/images/netboot"
	"machined/tools/netboot/tftp"
)

const (
	// Script is what iPXE is given.
	Script = "boot.ipxe"
	// cmdline is the command line of a Raspberry Pi.
	cmdline = "cmdline.txt"
	// ipxeDir has iPXE's own programs, for machines whose firmware cannot load a
	// unified kernel image.
	ipxeDir = "ipxe"
)

// Content is a file that is open.
type Content = tftp.Content

// Asks is who wants a file, and by which way.
type Asks struct {
	Client netip.Addr
	// Server is the address that the client has reached.
	Server netip.Addr
}

// Files opens what boards load.
type Files struct {
	root  *os.Root
	index netboot.Index
	// Token returns the token of the board at an address.
	Token func(netip.Addr) (string, error)
	// Board returns the name of the board at an address, "" for not known.
	Board func(netip.Addr) string
	// NodePort and HTTPPort are where nodes enroll, and where iPXE loads from.
	NodePort, HTTPPort uint16
}

// Open reads the index of a netboot directory and makes sure that all it names is
// there.
func Open(dir string) (*Files, error) {
	index, err := netboot.Load(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the netboot directory: %w", err)
	}
	return &Files{root: root, index: index}, nil
}

// Close closes the directory. What is open of it stays so.
func (f *Files) Close() error { return f.root.Close() }

// Index is what can be booted.
func (f *Files) Index() netboot.Index { return f.index }

// Check returns an error unless a file of the directory is there and regular.
func (f *Files) Check(name string) error {
	c, err := f.plain(name)
	if err != nil {
		return err
	}
	return c.Close()
}

// IPXE returns the name of a program of iPXE that is there, "" for none.
func (f *Files) IPXE(name string) string {
	file := ipxeDir + "/" + name
	if info, err := f.root.Stat(file); err == nil && info.Mode().IsRegular() {
		return file
	}
	return ""
}

// Arguments are those that tell a node of its server.
func (f *Files) arguments(a Asks) (string, error) {
	token, err := f.Token(a.Client)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("machined.netboot=https://%s machined.token=%s", netip.AddrPortFrom(a.Server, f.NodePort), token), nil
}

// Open opens a file for a board. Names are as firmware sends them: with either
// slash, and on a Raspberry Pi below its serial. What is not for boards is not
// there: fs.ErrNotExist.
func (f *Files) Open(a Asks, name string) (Content, error) {
	clean, ok := tftp.Clean(name)
	if !ok {
		return nil, fmt.Errorf("%q names no file: %w", name, fs.ErrNotExist)
	}
	if clean == Script {
		return f.script(a)
	}
	dir, _, _ := strings.Cut(clean, "/")
	if b, ok := f.index.Boards[dir]; ok {
		return f.ofBoard(a, b, clean)
	}
	if dir == ipxeDir {
		return f.plain(clean)
	}
	return f.ofPi(a, piName(clean))
}

// ofBoard opens a file that the index names.
func (f *Files) ofBoard(a Asks, b netboot.Board, name string) (Content, error) {
	switch {
	case b.UKI != nil && b.UKI.Path == name:
		return f.uki(a, *b.UKI)
	case b.Kernel.Path == name || b.Initramfs.Path == name:
		return f.plain(name)
	}
	return nil, fmt.Errorf("%s is not for boards: %w", name, fs.ErrNotExist)
}

// script is iPXE's. initrd= is what the kernel's EFI stub looks for.
func (f *Files) script(a Asks) (Content, error) {
	name := f.Board(a.Client)
	b, ok := f.index.Boards[name]
	if !ok {
		return nil, fmt.Errorf("there is no script for the board at %s, which is %q: %w", a.Client, name, fs.ErrNotExist)
	}
	more, err := f.arguments(a)
	if err != nil {
		return nil, err
	}
	base := "http://" + netip.AddrPortFrom(a.Server, f.HTTPPort).String()
	return memory(fmt.Appendf(nil, "#!ipxe\n"+
		"kernel %s/%s initrd=initramfs.img %s machined.board=%s %s\n"+
		"initrd --name initramfs.img %s/%s\n"+
		"boot\n", base, b.Kernel.Path, b.Arguments, name, more, base, b.Initramfs.Path)), nil
}

// uki is the unified kernel image with the board's arguments in their place.
func (f *Files) uki(a Asks, u netboot.UKI) (Content, error) {
	more, err := f.arguments(a)
	if err != nil {
		return nil, err
	}
	if len(more)+1 > u.Placeholder.Length {
		return nil, fmt.Errorf("%s has %d bytes for the board's arguments, and they have %d", u.Path, u.Placeholder.Length, len(more)+1)
	}
	file, err := f.plain(u.Path)
	if err != nil {
		return nil, err
	}
	if err := sameBuild(file, u); err != nil {
		_ = file.Close()
		return nil, err
	}
	return &patched{Content: file, at: u.Placeholder.Offset, patch: []byte(" " + more)}, nil
}

// sameBuild returns an error for an image that is not the one of the index: what is at
// the placeholder's offset would be written over.
func sameBuild(file Content, u netboot.UKI) error {
	spaces := make([]byte, u.Placeholder.Length)
	if file.Size() == u.Size {
		if _, err := file.ReadAt(spaces, u.Placeholder.Offset); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("look for the place of the board's arguments in %s: %w", u.Path, err)
		}
		if len(bytes.Trim(spaces, " ")) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s is not the one that this server has begun with: the directory was built anew, restart `machinectl netboot serve`", u.Path)
}

// plain opens a regular file of the directory.
func (f *Files) plain(name string) (Content, error) {
	// Look first: opening a pipe would wait for a writer.
	info, err := f.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: %w", name, fs.ErrNotExist)
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	return NewPlain(file, info.Size()), nil
}

// Image opens what a board is installed from.
func (f *Files) Image(board string) (Content, netboot.Disk, error) {
	b, ok := f.index.Boards[board]
	if !ok {
		return nil, netboot.Disk{}, fmt.Errorf("there is no image for the board %q: %w", board, fs.ErrNotExist)
	}
	c, err := f.plain(b.Image.Path)
	return c, b.Image, err
}

// Plain is a file as it is on the disk.
type Plain struct {
	*os.File
	size int64
}

// NewPlain returns an open file of that size in bytes.
func NewPlain(f *os.File, size int64) *Plain { return &Plain{File: f, size: size} }

// Size implements Content.
func (p *Plain) Size() int64 { return p.size }

// memory is a file that was made.
func memory(b []byte) Content { return made{bytes.NewReader(b)} }

type made struct{ *bytes.Reader }

func (made) Close() error { return nil }

// patched is a file with other bytes in one place.
type patched struct {
	Content
	at    int64
	patch []byte
}

// ReadAt implements io.ReaderAt.
func (p *patched) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.Content.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	from, to := max(off, p.at), min(off+int64(n), p.at+int64(len(p.patch)))
	if from < to {
		copy(b[from-off:to-off], p.patch[from-p.at:])
	}
	return n, err
}
