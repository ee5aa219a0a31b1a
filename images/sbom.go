package images

import (
	"fmt"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"machined/images/parts"
)

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
			inside = append(inside, moduleComponent(c.Name, m))
		}
		list = append(list, cdx.Component{
			BOMRef: c.Name, Type: cdx.ComponentTypeApplication, Name: c.Name, Version: c.Version, Description: c.Source,
			Licenses: &cdx.Licenses{{Expression: c.License}}, Components: &inside,
		})
	}
	return list
}

// moduleComponent describes a module that is linked into a program. The
// package URL is what scanners look vulnerabilities up by; there a Go release
// has no "go" in front (purl specification, type golang).
func moduleComponent(program string, m parts.GoModule) cdx.Component {
	url := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(strings.TrimPrefix(m.Version, "go"), "+", "%2B")
	return cdx.Component{
		BOMRef: program + ":" + m.Path, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
		PackageURL: url, Licenses: &cdx.Licenses{{Expression: m.License}},
	}
}
