package images

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

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
	Slot      SlotManifest `json:"slot"`
}

func newManifest(name string, img Image, slot SlotManifest, o Options) Manifest {
	return Manifest{
		Image: name, Board: o.Board.Name, Version: o.Store.Index.Version, BuildTime: o.Store.Index.BuildTime,
		Size: img.Size, SHA256: img.SHA256, Parts: usedParts(o), Slot: slot,
	}
}

// usedParts lists the parts of the store that the image holds.
func usedParts(o Options) []parts.Part {
	used := make(map[string]bool)
	for _, s := range append(slotSources(o.Board, o.Store, "A"), bootSources(o.Board, o.Store)...) {
		used[s.part] = true
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

// writeSBOM writes a CycloneDX bill of materials. It has no serial number,
// which would differ from build to build.
func writeSBOM(path string, o Options) error {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: time.Unix(o.Store.Index.BuildTime, 0).UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: "machined-image", Type: cdx.ComponentTypeOS, Name: "machined-" + o.Board.Name, Version: o.Store.Index.Version,
		},
	}
	components := sbomComponents(o)
	bom.Components = &components
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("write the bill of materials %s: %w", path, err)
	}
	return f.Close()
}

// sbomComponents lists the works in the image, each with its files and the Go
// modules that are linked into it.
func sbomComponents(o Options) []cdx.Component {
	files := make(map[string][]cdx.Component)
	for _, p := range usedParts(o) {
		files[p.Component] = append(files[p.Component], cdx.Component{
			BOMRef: "file:" + p.Name, Type: cdx.ComponentTypeFile, Name: p.Name,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.SHA256}},
		})
	}
	var list []cdx.Component
	for _, c := range o.Store.Index.Components {
		inside := files[c.Name]
		if len(inside) == 0 {
			continue
		}
		for _, m := range c.GoModules {
			path, version, _ := strings.Cut(m, "@")
			inside = append(inside, cdx.Component{
				BOMRef: c.Name + ":" + m, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: "pkg:golang/" + m,
			})
		}
		list = append(list, cdx.Component{
			BOMRef: c.Name, Type: cdx.ComponentTypeApplication, Name: c.Name, Version: c.Version, Description: c.Source,
			Licenses: &cdx.Licenses{{Expression: c.License}}, Components: &inside,
		})
	}
	return list
}
