package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"machined/tools/netboot/statefile"
)

// kept is a board as the file has it.
type kept struct {
	Board    Board    `json:"board"`
	Grant    grant    `json:"grant,omitzero"`
	Firmware firmware `json:"firmware,omitzero"`
}

// maxFile bounds the file, in bytes.
const maxFile = 8 << 20

func (r *Registry) load() error {
	if r.File == "" {
		return nil
	}
	doing := "read what is known of the boards from " + r.File
	info, err := os.Stat(r.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if info.Size() > maxFile {
		return fmt.Errorf("%s: it has %d bytes, and %d are the most; move it aside", doing, info.Size(), maxFile)
	}
	text, err := os.ReadFile(r.File)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	var list []kept
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("%s: %w; move it aside to begin anew: boards that were accepted have to be accepted again", doing, err)
	}
	for _, k := range list {
		if k.Board.ID == "" || len(r.boards) == MaxBoards {
			continue
		}
		e := &entry{Board: k.Board, grant: k.Grant, firmware: k.Firmware}
		e.Known = r.known(e) // the configs and the policy may be others now
		r.version++
		e.version = r.version
		r.boards[e.ID] = e
		if addr, err := netip.ParseAddr(e.Address); err == nil {
			r.byAddr[addr] = e.ID
		}
	}
	return nil
}

// save writes the file. The caller holds mu.
func (r *Registry) save() error {
	if r.File == "" {
		return nil
	}
	list := make([]kept, 0, len(r.boards))
	for _, e := range r.boards {
		list = append(list, kept{e.Board, e.grant, e.firmware})
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := statefile.Replace(r.File, text); err != nil {
		return fmt.Errorf("keep what is known of the boards: %w", err)
	}
	return nil
}
