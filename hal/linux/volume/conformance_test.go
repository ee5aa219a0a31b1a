package volume

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/signature"
)

func TestProvisioner(t *testing.T) {
	dir := t.TempDir()
	for name, contents := range simpleTemplates() {
		if err := os.WriteFile(filepath.Join(dir, name), contents, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conformance.Provisioner(t, func(t *testing.T) conformance.ProvisionerRig {
		return conformance.ProvisionerRig{
			Provisioner: NewProvisioner(&kernel{}, dir),
			NewDisk: func(t *testing.T, kind conformance.DiskKind, size int64) string {
				path := filepath.Join(t.TempDir(), "disk")
				if err := conformance.MakeImage(path, kind, size); err != nil {
					t.Fatal(err)
				}
				return path
			},
			Found: foundOn,
		}
	})
}

// foundOn reads a disk as a scan does.
func foundOn(t *testing.T, path string) []hal.BlockDevice {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	table, err := signature.ReadTable(f, info.Size(), 512)
	if err != nil {
		t.Fatal(err)
	}
	content := func(d hal.BlockDevice) hal.BlockDevice {
		c, err := signature.Read(io.NewSectionReader(f, d.Start, d.Size), d.Size)
		if err != nil {
			t.Fatal(err)
		}
		d.FS, d.FSLabel, d.FSUUID, d.Blank = c.FS, c.Label, c.UUID, c.Blank
		return d
	}
	found := []hal.BlockDevice{content(hal.BlockDevice{Name: "disk", Disk: "disk", Size: info.Size(), Table: table.Kind, Trouble: table.Damage})}
	for _, p := range table.Partitions {
		found = append(found, content(hal.BlockDevice{
			Name: fmt.Sprint("disk", p.Number), Disk: "disk", Number: p.Number, Start: p.Start, Size: p.Size, Label: p.Label, Type: p.Type,
		}))
	}
	return found
}
