package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"machined/images/oci"
)

func TestReadImager(t *testing.T) {
	dir := t.TempDir()
	full := "board: rpi-3a-plus\nout: card.img\nconfig: node.yaml\npki: /pki\nimages: [web.tar, /srv/db]\n"
	for _, c := range []struct {
		name, text string
		flags      imageFlags
		want       imageFlags
		says       string
	}{
		{"a whole file", full, imageFlags{}, imageFlags{
			board: "rpi-3a-plus", out: dir + "/card.img", config: dir + "/node.yaml", pki: "/pki", oci: []string{dir + "/web.tar", "/srv/db"},
		}, ""},
		{"flags win", full, imageFlags{board: "arm64-mbr", out: "x.img", oci: []string{"y.tar"}}, imageFlags{
			board: "arm64-mbr", out: "x.img", config: dir + "/node.yaml", pki: "/pki", oci: []string{"y.tar", dir + "/web.tar", "/srv/db"},
		}, ""},
		{"an empty file", " \n", imageFlags{board: "b"}, imageFlags{board: "b"}, ""},
		{"a field that there is not", "bord: x\n", imageFlags{}, imageFlags{}, "bord"},
		{"a list for a text", "board: [x]\n", imageFlags{}, imageFlags{}, "it takes board, out, config, pki, images and programs"},
	} {
		path := filepath.Join(dir, "imager.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.flags.imager, c.want.imager = path, path
		err := c.flags.readImager()
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("readImager() = %v for %s; want the file and %q", err, c.name, c.says)
			}
		case err != nil || !reflect.DeepEqual(c.flags, c.want):
			t.Errorf("readImager() of %s gives %+v, %v; want %+v", c.name, c.flags, err, c.want)
		}
	}
	missing := imageFlags{imager: filepath.Join(dir, "none")}
	if err := missing.readImager(); err == nil {
		t.Error("readImager() = nil without the file; want an error")
	}
}

// TestContainers reads the images that are named, and says which is bad.
func TestContainers(t *testing.T) {
	good, bad := filepath.Join(t.TempDir(), "good.tar"), filepath.Join(t.TempDir(), "bad.tar")
	var b bytes.Buffer
	if _, err := oci.Write(&b, oci.Image{Name: "good", Arch: "arm64"}); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{good: b.Bytes(), bad: []byte("text")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := imageFlags{oci: []string{good}}
	if list, err := f.containers(); err != nil || len(list) != 1 || list[0].Name() != "good.tar" || !list[0].Has("arm64") {
		t.Errorf("containers() = %+v, %v; want the good one", list, err)
	}
	f.oci = append(f.oci, bad)
	if _, err := f.containers(); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("containers() = %v; want the bad one named", err)
	}
}
