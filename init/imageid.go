package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// readImageID returns the SHA-256 of the running slot's system image, as the
// slot's manifest has it.
func readImageID(slot string) (string, error) {
	path := filepath.Join(bootDir, slot, "manifest.json")
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	id, err := imageID(f)
	if err != nil {
		return "", fmt.Errorf("find %s in %s: %w", systemFile, path, err)
	}
	return id, nil
}

// imageID finds the system image's hash in a manifest. It reads no further than
// that, since the image is named early and the manifest of a Raspberry Pi has
// hundreds of files.
func imageID(manifest io.Reader) (string, error) {
	d := json.NewDecoder(manifest)
	path := ""
	key := true
	for last := ""; ; {
		token, err := d.Token()
		if err != nil {
			return "", err
		}
		text, isText := token.(string)
		switch {
		case !isText: // a bracket or a number: what follows is a key
			key = true
		case key:
			last, key = text, false
		default:
			key = true
			if last == "path" {
				path = text
			}
			if last == "sha256" && path == systemFile {
				return text, nil
			}
		}
	}
}
