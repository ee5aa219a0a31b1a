package images

import (
	"bytes"
	"debug/pe"
	"io"
	"os"
	"testing"
)

// FuzzUKI makes UKIs of stubs that are none: an error is all that may come of one,
// and what is written is of the size that its headers say.
func FuzzUKI(f *testing.F) {
	if stub, err := os.ReadFile("../build/parts/stub/amd64.efi"); err == nil {
		f.Add(stub[:1024])
	}
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, stub []byte) {
		sections := []ukiSection{dataSection(".osrel", []byte("a")), dataSection(".cmdline", bytes.Repeat([]byte("b"), 5000))}
		var out bytes.Buffer
		if err := writeUKI(&out, stub, sections); err != nil {
			return
		}
		p, err := parsePE(out.Bytes())
		if err != nil || p.fileEnd != int64(out.Len()) {
			t.Fatalf("a UKI of %d bytes: %+v, %v", out.Len(), p, err)
		}
		for _, s := range sections {
			r, _ := s.open()
			want, _ := io.ReadAll(r)
			if got := out.Bytes()[s.offset:][:s.size]; !bytes.Equal(got, want) {
				t.Fatalf("section %s holds %q", s.name, got)
			}
		}
		_, _ = pe.NewFile(bytes.NewReader(out.Bytes()))
	})
}
