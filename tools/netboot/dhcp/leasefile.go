package dhcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"machined/tools/netboot/statefile"
)

const leaseVersion = 1

// leaseFile is the file's form.
type leaseFile struct {
	Version int     `json:"version"`
	Leases  []Lease `json:"leases"`
}

// readLeases reads a file of leases. One that is not there has none.
func readLeases(name string) ([]Lease, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the leases: %w", err)
	}
	leases, err := parseLeases(data)
	if err != nil {
		return nil, fmt.Errorf("read the leases of %s: %w; mend it, or delete it and have the boards get new addresses", name, err)
	}
	return leases, nil
}

func parseLeases(data []byte) ([]Lease, error) {
	var f leaseFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != leaseVersion {
		return nil, fmt.Errorf("it has version %d, and this program reads %d", f.Version, leaseVersion)
	}
	for _, l := range f.Leases {
		if !l.Address.Is4() {
			return nil, fmt.Errorf("the address %v of %v is not IPv4", l.Address, l.MAC)
		}
	}
	return f.Leases, nil
}

// writeLeases replaces the file. Whatever happens meanwhile, the old or the new
// leases are in it.
func writeLeases(name string, leases []Lease) error {
	data, err := json.MarshalIndent(leaseFile{leaseVersion, leases}, "", "\t")
	if err == nil {
		err = statefile.Replace(name, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the leases: %w", err)
	}
	return nil
}
