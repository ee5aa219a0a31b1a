// Package netboot is the index of a directory that nodes are booted from over
// the network: `machinectl netboot build` writes it, `machinectl netboot serve`
// reads it, and both know from here what a node asks its server for.
package netboot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// IndexName is the file in the directory.
	IndexName = "netboot.json"
	// Format is the version of the index.
	Format = 1
	// ServerName is the DNS name that the server's certificate has to have, or
	// else the IP address that it is reached at: the CA signs nodes as well, and
	// none of those may pose as the server.
	ServerName = "netboot.machined.internal"
	// PlaceholderLength is the number of spaces at the end of the command line in
	// a UKI, which a server overwrites in the copy that it serves.
	PlaceholderLength = 512
	// maxIndex bounds the index, in bytes.
	maxIndex = 1 << 20
)

// The files in the directory beside those of the boards.
const (
	DefaultConfig = "configs/default.yaml" // machine config of nodes without one of their own
	PKIDir        = "pki"                  // ca.crt, ca.key
	BundleDir     = "bundle"               // client bundle of the admin
)

// File is a file of the directory.
type File struct {
	Path   string `json:"path"` // slash separated, from the directory
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Placeholder is where a server writes its arguments into a UKI.
type Placeholder struct {
	Offset int64 `json:"offset"` // in the file, bytes
	Length int   `json:"length"` // bytes, all of them spaces
}

// UKI is a unified kernel image (UAPI.5), which UEFI firmware starts itself.
type UKI struct {
	File
	Placeholder Placeholder `json:"placeholder"`
}

// Disk is the image that a node is installed from.
type Disk struct {
	File           // in gzip
	DiskSize int64 `json:"disk_size"` // bytes, unpacked
}

// Board is what a board is booted and installed from.
type Board struct {
	Version   string `json:"version"` // of machined
	Arch      string `json:"arch"`    // GOARCH
	UKI       *UKI   `json:"uki,omitempty"`
	Kernel    File   `json:"kernel"`
	Initramfs File   `json:"initramfs"`
	// Arguments are those of the kernel, to which the server adds its own
	// (machined.netboot=, machined.token=).
	Arguments string `json:"arguments"`
	// Tree is the directory of what a Raspberry Pi asks TFTP for; empty for other
	// boards. cmdline.txt is not in it: it is made for each Pi.
	Tree  string `json:"tree"`
	Image Disk   `json:"image"`
}

// Index is the content of IndexName.
type Index struct {
	Format int              `json:"format"`
	Boards map[string]Board `json:"boards"` // by the names of the boards
}

// Load reads the index of the directory and looks whether each file is there with
// its size; hashes are not compared. All faults are in the error. It matches
// fs.ErrNotExist when there is no index.
func Load(dir string) (Index, error) {
	x, err := Read(dir)
	if err != nil {
		return Index{}, err
	}
	root, err := os.OpenRoot(dir) // no link leads out of it
	if err != nil {
		return Index{}, fmt.Errorf("open the netboot directory: %w", err)
	}
	defer root.Close()
	var faults []error
	for _, name := range x.names() {
		faults = append(faults, x.Boards[name].check(root, name))
	}
	if err := errors.Join(faults...); err != nil {
		return Index{}, fmt.Errorf("check the files of %s; `machinectl netboot build` makes them anew: %w", filepath.Join(dir, IndexName), err)
	}
	return x, nil
}

// Read reads the index of the directory and nothing else.
func Read(dir string) (Index, error) {
	path := filepath.Join(dir, IndexName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Index{}, fmt.Errorf("read the netboot index; `machinectl netboot build` makes one: %w", err)
	}
	if err != nil {
		return Index{}, fmt.Errorf("read the netboot index: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err != nil {
		return Index{}, fmt.Errorf("read the netboot index %s: %w", path, err)
	}
	x, err := Parse(text)
	if err != nil {
		return Index{}, fmt.Errorf("read the netboot index %s; `machinectl netboot build` makes it anew: %w", path, err)
	}
	return x, nil
}

// Parse reads an index. Unknown keys are errors, as is whatever does not make
// sense by itself.
func Parse(text []byte) (Index, error) {
	if len(text) > maxIndex {
		return Index{}, fmt.Errorf("it has more than %d bytes", maxIndex)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var x Index
	if err := d.Decode(&x); err != nil {
		return Index{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return Index{}, errors.New("something follows the JSON object")
	}
	if x.Format != Format {
		return Index{}, fmt.Errorf("it has the format %d, and this program reads %d", x.Format, Format)
	}
	var faults []error
	for _, name := range x.names() {
		if err := x.Boards[name].valid(); err != nil {
			faults = append(faults, fmt.Errorf("board %q: %w", name, err))
		}
	}
	return x, errors.Join(faults...)
}

// Bytes returns the index as Parse reads it: the same bytes for the same index.
func (x Index) Bytes() ([]byte, error) {
	b, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the netboot index: %w", err)
	}
	b = append(b, '\n')
	if _, err := Parse(b); err != nil {
		return nil, fmt.Errorf("encode the netboot index: %w", err)
	}
	return b, nil
}
