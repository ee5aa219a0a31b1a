package hal_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"machined/hal"
)

// jsonManifest is the manifest as the builder of images writes it.
type jsonManifest struct {
	Version string     `json:"version"`
	Board   string     `json:"board"`
	Files   []jsonFile `json:"files"`
}

type jsonFile struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func manifest(files ...string) hal.SlotManifest {
	m := hal.SlotManifest{Version: "v1.2-3-gabc", Board: "rpi-3a-plus"}
	for i, f := range files {
		m.Files = append(m.Files, hal.SlotFile{Path: f, Size: int64(i) << 33, SHA256: sha256.Sum256([]byte(f))})
	}
	return m
}

func sameManifest(a, b hal.SlotManifest) bool {
	same := a.Version == b.Version && a.Board == b.Board && len(a.Files) == len(b.Files)
	for i := 0; same && i < len(a.Files); i++ {
		same = a.Files[i] == b.Files[i]
	}
	return same
}

// TestSlotManifest writes what encoding/json does, byte for byte, and reads it
// with any white space.
func TestSlotManifest(t *testing.T) {
	m := manifest("linux.efi", "overlays/README", "licenses/ümlaut.txt")
	var j jsonManifest
	if err := json.Unmarshal([]byte(m.String()), &j); err != nil {
		t.Fatal(err)
	}
	want, err := json.MarshalIndent(j, "", "  ")
	if err != nil || string(want)+"\n" != m.String() {
		t.Errorf("String = %s; want %s, %v", m.String(), want, err)
	}
	compact, _ := json.Marshal(j)
	for _, text := range []string{m.String(), string(compact), strings.ReplaceAll(m.String(), "\n", "\r\n\t")} {
		if got, err := hal.ParseSlotManifest([]byte(text)); err != nil || !sameManifest(got, m) {
			t.Errorf("ParseSlotManifest(%s) = %+v, %v; want %+v", text, got, err, m)
		}
	}
	if got, err := hal.ParseSlotManifest([]byte(hal.SlotManifest{}.String())); err != nil || len(got.Files) != 0 {
		t.Errorf("ParseSlotManifest of an empty one = %+v, %v; want it", got, err)
	}
}

// TestSlotManifestDamaged has every beginning of a manifest, and other texts that
// are none.
func TestSlotManifestDamaged(t *testing.T) {
	whole := strings.TrimSpace(manifest("linux.efi").String())
	texts := []string{whole + "x", "-" + whole[1:], strings.Replace(whole, "{", "[", 1), "null", strings.Repeat("\xe5", 512)}
	for i := range whole {
		texts = append(texts, whole[:i])
	}
	for _, change := range [][2]string{
		{`"size": 0`, `"size": -1`}, {`"size": 0`, `"size": 00`}, {`"size": 0`, `"size": 1.5`}, {`"size": 0`, `"size": 99999999999999999999`},
		{`"linux.efi"`, `"../linux.efi"`}, {`"linux.efi"`, `"/linux.efi"`}, {`"linux.efi"`, `""`}, {`"linux.efi"`, `"a\u002fb"`}, {`"linux.efi"`, `"a/./b"`},
		{`"sha256": "`, `"sha256": "0`}, {`"sha256": "`, `"sha512": "`}, {`"board"`, `"bored"`},
	} {
		changed := strings.Replace(whole, change[0], change[1], 1)
		if changed == whole {
			t.Fatalf("the manifest has no %s", change[0])
		}
		texts = append(texts, changed)
	}
	for _, text := range texts {
		if m, err := hal.ParseSlotManifest([]byte(text)); !errors.Is(err, hal.ErrManifest) || !sameManifest(m, hal.SlotManifest{}) {
			t.Errorf("ParseSlotManifest(%q) = %+v, %v; want %v", text, m, err, hal.ErrManifest)
		}
	}
}

func TestOtherSlot(t *testing.T) {
	for slot, want := range map[string]string{"A": "B", "B": "A", "": "", "C": "", "a": "", "AB": ""} {
		if got := hal.OtherSlot(slot); got != want {
			t.Errorf("OtherSlot(%q) = %q; want %q", slot, got, want)
		}
		if err := hal.CheckSlot("boot", slot); (want == "") != errors.Is(err, hal.ErrInvalid) {
			t.Errorf("CheckSlot(%q) = %v", slot, err)
		}
	}
}

func TestBootError(t *testing.T) {
	err := error(&hal.BootError{Doing: "write B/linux.efi", Why: "it is too long", Err: hal.ErrInvalid})
	if got, want := err.Error(), "write B/linux.efi: it is too long: invalid argument"; got != want || !errors.Is(err, hal.ErrInvalid) {
		t.Errorf("the error is %q; want %q, and %v to be found in it", got, want, hal.ErrInvalid)
	}
}

// FuzzParseSlotManifest checks that what is read is written and read again as
// it was, and that encoding/json reads the same.
func FuzzParseSlotManifest(f *testing.F) {
	f.Add([]byte(manifest("linux.efi", "overlays/README").String()))
	f.Add([]byte(`{"version":"","board":"","files":[]}`))
	f.Add([]byte(`{"version":"a","board":"b","files":[{"path":"a","size":1,"sha256":"00"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := hal.ParseSlotManifest(text)
		if err != nil {
			return
		}
		if again, err := hal.ParseSlotManifest([]byte(m.String())); err != nil || !sameManifest(again, m) {
			t.Fatalf("ParseSlotManifest of %s = %+v, %v; want %+v", m, again, err, m)
		}
		var j jsonManifest
		if err := json.Unmarshal(text, &j); err != nil || j.Version != m.Version || j.Board != m.Board || len(j.Files) != len(m.Files) {
			t.Fatalf("encoding/json reads %+v, %v; want %+v", j, err, m)
		}
		for i, f := range j.Files {
			if f.Path != m.Files[i].Path || f.Size != m.Files[i].Size {
				t.Fatalf("encoding/json reads %+v; want %+v", f, m.Files[i])
			}
		}
	})
}
