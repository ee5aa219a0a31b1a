package fake_test

import (
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/fake"
)

func newBootFiles() *fake.BootFiles {
	return &fake.BootFiles{Sum: func(b []byte) [32]byte { return sha256.Sum256(b) }}
}

func TestBootFiles(t *testing.T) {
	conformance.BootFiles(t, func(*testing.T) conformance.BootFilesRig {
		b := newBootFiles()
		return conformance.BootFilesRig{Files: b, Writable: func() bool { return b.Unlocked }}
	})
}

// outcomes returns what the power can leave of a file when it goes during what
// run does, each once: its content, or "none".
func outcomes(t *testing.T, b *fake.BootFiles, path string, run func() error) []string {
	t.Helper()
	b.Settle()
	if err := b.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	var found []string
	for n := range b.Effects() + 1 {
		pending := b.Pending(n)
		fates := 1
		for range pending {
			fates *= 3
		}
		for f := range fates {
			after := b.PowerCut(n, func(i int) fake.BootFate {
				fate := f
				for range i {
					fate /= 3
				}
				return fake.BootFate(fate % 3)
			})
			content := "none"
			if data, err := after.Read(path); err == nil {
				content = string(data)
			}
			if !slices.Contains(found, content) {
				found = append(found, content)
			}
		}
	}
	slices.Sort(found)
	return found
}

// TestPowerCut lists all that a cut can leave of each kind of write. Nothing
// but an Overwrite of one sector is done whole or not at all.
func TestPowerCut(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(b *fake.BootFiles) error
		want []string
	}{
		{"create", func(b *fake.BootFiles) error {
			w, err := b.Create("file", 3)
			if err == nil {
				_, err = w.Write([]byte("new"))
			}
			return errors.Join(err, w.Close())
		}, []string{"", "new", "old", "\xe5\xe5\xe5"}},
		{"create after remove", func(b *fake.BootFiles) error {
			err := b.Remove("file")
			w, createErr := b.Create("file", 3)
			if createErr == nil {
				_, createErr = w.Write([]byte("new"))
			}
			return errors.Join(err, createErr, w.Close())
		}, []string{"", "new", "none", "old"}},
		{"overwrite", func(b *fake.BootFiles) error { return b.Overwrite("file", 0, []byte("new")) }, []string{"new", "old"}},
		{"replace", func(b *fake.BootFiles) error { return b.Replace("file", []byte("new")) }, []string{"new", "none", "old"}},
		{"remove", func(b *fake.BootFiles) error { return b.Remove("file") }, []string{"none", "old"}},
		{"rename", func(b *fake.BootFiles) error { return b.Rename("file", "other") }, []string{"none", "old"}},
		{"rename to the name", func(b *fake.BootFiles) error { return b.Rename("next", "file") }, []string{"next", "none", "old"}},
		{"something else", func(b *fake.BootFiles) error { return b.Replace("other", []byte("new")) }, []string{"old"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBootFiles()
			b.Put("file", []byte("old"))
			b.Put("next", []byte("next"))
			if got := outcomes(t, b, "file", func() error { return c.run(b) }); !slices.Equal(got, c.want) {
				t.Errorf("a cut leaves %q; want %q", got, c.want)
			}
		})
	}
}

// TestPowerCutOfTwoSectors can leave the first without the second.
func TestPowerCutOfTwoSectors(t *testing.T) {
	b := newBootFiles()
	b.Put("file", make([]byte, 1024))
	data := make([]byte, 1024)
	data[0], data[1023] = 1, 1
	if got := outcomes(t, b, "file", func() error { return b.Overwrite("file", 0, data) }); len(got) != 4 {
		t.Errorf("a cut leaves %d contents; want all 4 of two sectors", len(got))
	}
}

// TestPowerCutAfterFlush leaves what was flushed, unless the disk lies.
func TestPowerCutAfterFlush(t *testing.T) {
	for _, lying := range []bool{false, true} {
		b := newBootFiles()
		b.Put("file", []byte("old"))
		b.Lying = lying
		if err := errors.Join(b.Unlock(), b.Overwrite("file", 0, []byte("new")), b.Flush(), b.Lock()); err != nil {
			t.Fatal(err)
		}
		after := b.PowerCut(b.Effects(), func(int) fake.BootFate { return fake.Lost })
		want := "new"
		if lying {
			want = "old"
		}
		if got, err := after.Read("file"); string(got) != want || err != nil {
			t.Errorf("lying=%v: a cut after Lock leaves %q, %v; want %q", lying, got, err, want)
		}
		if err := after.Remove("file"); !errors.Is(err, hal.ErrLocked) {
			t.Errorf("Remove after a cut = %v; want %v, as after a boot", err, hal.ErrLocked)
		}
	}
}

func TestBootFilesDamage(t *testing.T) {
	b := newBootFiles()
	b.Put("file", []byte("data"))
	b.Damage("file", 1)
	if sum, err := b.Hash("file"); err != nil || sum == sha256.Sum256([]byte("data")) {
		t.Errorf("Hash of a damaged file = that of the whole one, %v", err)
	}
	b.Fail("Hash", 1, hal.ErrNoDevice)
	if _, err := b.Hash("file"); !errors.Is(err, hal.ErrNoDevice) {
		t.Errorf("Hash = %v; want the planned fault", err)
	}
}
