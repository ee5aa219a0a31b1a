package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestImageID(t *testing.T) {
	for _, c := range []struct {
		name, manifest, want string // want "" for an error
	}{
		{"first file", `{"version":"1","files":[{"path":"system.squashfs","size":1,"sha256":"aa"}]}`, "aa"},
		{"later file", `{"files":[{"path":"kernel","sha256":"bb"},{"path":"system.squashfs","size":2,"sha256":"aa"}]}`, "aa"},
		{"the rest is not read", `{"files":[{"path":"system.squashfs","sha256":"aa"}, garbage`, "aa"},
		{"other values before", `{"build_time":1767225600,"signed":true,"note":null,"files":[{"path":"system.squashfs","sha256":"aa"}]}`, "aa"},
		{"a value that is a key's name", `{"board":"path","slot":"sha256","files":[{"path":"system.squashfs","sha256":"aa"}]}`, "aa"},
		{"no such file", `{"files":[{"path":"kernel","sha256":"bb"}]}`, ""},
		{"cut", `{"files":[{"path":"system.squashfs",`, ""},
		{"empty", ``, ""},
		{"no JSON", `system.squashfs aa`, ""},
	} {
		got, err := imageID(strings.NewReader(c.manifest))
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("imageID(%s) = %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

// FuzzImageID takes a card's bytes as they are, and a manifest of any names.
func FuzzImageID(f *testing.F) {
	f.Add([]byte(`{"files":[{"path":"system.squashfs","sha256":"aa"}]}`), "kernel", "bb", "aa", int64(1))
	f.Add([]byte(`[[["`), "path", "sha256", `"`, int64(-1))
	f.Fuzz(func(t *testing.T, raw []byte, name, otherHash, hash string, size int64) {
		if got, err := imageID(strings.NewReader(string(raw))); err != nil && got != "" {
			t.Errorf("imageID(%q) = %q, %v; want either", raw, got, err)
		}
		type file struct {
			Path   string `json:"path"`
			Size   int64  `json:"size"`
			SHA256 string `json:"sha256"`
		}
		if name == systemFile {
			return
		}
		manifest, err := json.Marshal(map[string]any{"board": name, "files": []file{{name, size, otherHash}, {systemFile, size, hash}}})
		mustDo(t, err)
		var read struct{ Files []file }
		mustDo(t, json.Unmarshal(manifest, &read)) // bytes that are no UTF-8 are replaced
		if got, err := imageID(strings.NewReader(string(manifest))); got != read.Files[1].SHA256 || err != nil {
			t.Errorf("imageID(%s) = %q, %v; want %q", manifest, got, err, read.Files[1].SHA256)
		}
	})
}
