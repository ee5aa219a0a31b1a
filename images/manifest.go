package images

import (
	"encoding/json"
	"os"

	"machined/images/parts"
)

// Manifest says what an image is made of.
type Manifest struct {
	Image     string       `json:"image"`
	Board     string       `json:"board"`
	Version   string       `json:"version"`
	BuildTime int64        `json:"build_time"` // Unix time of the sources, seconds
	Size      int64        `json:"size"`       // bytes
	SHA256    string       `json:"sha256"`
	Parts     []parts.Part `json:"parts"`
	// Slot is the manifest of slot A, which a new image boots. Slot B differs
	// from it in the letter on its command line, and has its own.
	Slot SlotManifest `json:"slot"`
	// Containers lists the container images on the boot partition.
	Containers []ContainerImage `json:"containers,omitempty"`
	// Programs lists the programs of services on the boot partition.
	Programs []ProgramFile `json:"programs,omitempty"`
}

func newManifest(name string, img Image, slot SlotManifest, o Options) Manifest {
	return Manifest{
		Image: name, Board: o.Board.Name, Version: o.Store.Index.Version, BuildTime: o.Store.Index.BuildTime,
		Size: img.Size, SHA256: img.SHA256, Parts: usedParts(o), Slot: slot,
	}
}

// usedParts lists the parts of the store that the image holds, those that are
// packed inside of others among them.
func usedParts(o Options) []parts.Part {
	byName := make(map[string]parts.Part)
	for _, p := range o.Store.Index.Parts {
		byName[p.Name] = p
	}
	used := make(map[string]bool)
	var use func(name string)
	use = func(name string) {
		if used[name] {
			return
		}
		used[name] = true
		for _, inside := range byName[name].Holds {
			use(inside)
		}
	}
	for _, s := range append(slotSources(o.Board, o.Store, firstSlot), bootSources(o.Board, o.Store)...) {
		use(s.part)
	}
	var list []parts.Part
	for _, p := range o.Store.Index.Parts {
		if used[p.Name] {
			list = append(list, p)
		}
	}
	return list
}

func writeManifest(path string, m Manifest) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
