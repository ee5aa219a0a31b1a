package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"machined/hal"
)

// firstLine is within what is signed: a signature under this line is for a
// bundle of this format and for nothing else.
const firstLine = "machined-bundle 1"

// maxBuildTime is the end of the year 9999, in Unix seconds.
const maxBuildTime = 253402300799

// encode returns the manifest's bytes. Each manifest has one way to be written.
func (m *Manifest) encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	b := []byte(firstLine + "\nversion " + m.Version + "\nboard " + m.Board + "\nbuilt ")
	b = strconv.AppendInt(b, m.BuildTime, 10)
	if m.MinVersion != "" {
		b = append(b, "\nminimum "+m.MinVersion...)
	}
	b = append(b, "\narguments "+m.Arguments+"\n"...)
	for _, f := range m.Files {
		b = hex.AppendEncode(append(b, "file "...), f.SHA256[:])
		b = strconv.AppendInt(append(b, ' '), f.Size, 10)
		b = append(append(append(b, ' '), f.Path...), '\n')
	}
	if len(b) > MaxManifest {
		return nil, fmt.Errorf("%w: the manifest has %d bytes; at most %d are allowed", ErrTooLarge, len(b), MaxManifest)
	}
	return b, nil
}

// decode reads what encode has written, and nothing else.
func decode(b []byte) (m Manifest, err error) {
	d := decoder{rest: b}
	if line := d.line(); string(line) != firstLine {
		return m, fmt.Errorf("%w: it begins with %.64q; want %q", ErrManifest, line, firstLine)
	}
	m.Version = string(d.field("version"))
	m.Board = string(d.field("board"))
	m.BuildTime = d.number(d.field("built"))
	if bytes.HasPrefix(d.rest, []byte("minimum ")) {
		m.MinVersion = string(d.field("minimum"))
		if m.MinVersion == "" {
			d.fail("there is no version behind minimum")
		}
	}
	m.Arguments = string(d.field("arguments"))
	if n := bytes.Count(d.rest, []byte("\n")); n > MaxFiles {
		return m, fmt.Errorf("%w: it has %d files; at most %d are allowed", ErrTooLarge, n, MaxFiles)
	} else if n > 0 {
		m.Files = make([]hal.SlotFile, 0, n)
	}
	for len(d.rest) > 0 && d.err == nil {
		m.Files = append(m.Files, d.file())
	}
	if d.err != nil {
		return m, d.err
	}
	return m, m.check()
}

// decoder takes a manifest apart. It keeps the first error.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrManifest}, args...)...)
	}
}

// line returns the next line without its end.
func (d *decoder) line() []byte {
	line, rest, ok := bytes.Cut(d.rest, []byte("\n"))
	if !ok {
		d.fail("it ends where a whole line was to come")
	}
	d.rest = rest
	return line
}

// field returns the value of the line that has to come.
func (d *decoder) field(name string) []byte {
	line := d.line()
	if key, value, ok := bytes.Cut(line, []byte(" ")); ok && string(key) == name {
		return value
	}
	d.fail("there is %.64q where the field %s was to come", line, name)
	return nil
}

// number takes a decimal number without sign and leading zeros.
func (d *decoder) number(b []byte) int64 {
	// 18 digits fit an int64.
	if len(b) == 0 || len(b) > 18 || b[0] == '0' && len(b) > 1 {
		d.fail("%.64q is no number; want decimal digits without leading zeros", b)
		return 0
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			d.fail("%.64q is no number; want decimal digits without leading zeros", b)
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

func (d *decoder) file() (f hal.SlotFile) {
	line := d.field("file")
	sum, line, _ := bytes.Cut(line, []byte(" "))
	size, path, _ := bytes.Cut(line, []byte(" "))
	f.Path = string(path)
	if len(sum) != 2*sha256.Size || bytes.ContainsAny(sum, "ABCDEF") {
		d.fail("%.80q of file %.64q is no SHA-256 in lower-case hex", sum, path)
		return f
	}
	if _, err := hex.Decode(f.SHA256[:], sum); err != nil {
		d.fail("%.80q of file %.64q is no SHA-256 in lower-case hex", sum, path)
	}
	f.Size = d.number(size)
	return f
}

// check looks at what a manifest says, whoever has written it.
func (m *Manifest) check() error {
	for _, f := range []struct {
		name, value string
		max         int
	}{{"version", m.Version, 128}, {"board", m.Board, 64}, {"minimum", m.MinVersion, 128}} {
		if f.value == "" && f.name != "minimum" {
			return fmt.Errorf("%w: there is no %s", ErrManifest, f.name)
		}
		if len(f.value) > f.max || !isWord(f.value) {
			return fmt.Errorf("%w: %s %.64q is not of at most %d letters, digits and - _ . + /", ErrManifest, f.name, f.value, f.max)
		}
	}
	if m.MinVersion != "" && !Comparable(m.MinVersion) {
		return fmt.Errorf("%w: minimum %q is no version that others can be compared with; use one such as v1.2.3", ErrManifest, m.MinVersion)
	}
	if m.BuildTime < 0 || m.BuildTime > maxBuildTime {
		return fmt.Errorf("%w: built at %d; want Unix seconds from 0 to %d", ErrManifest, m.BuildTime, int64(maxBuildTime))
	}
	if err := checkArguments(m.Arguments); err != nil {
		return err
	}
	return m.checkFiles()
}

// isWord reports whether s can stand in manifests and loader entries of any kind
// as it is.
func isWord(s string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte("-_.+/", s[i]) < 0 {
			return false
		}
	}
	return true
}

// checkArguments refuses a command line that would not be the same one behind a
// text file, and one that chooses the slot.
func checkArguments(line string) error {
	if len(line) > MaxArguments {
		return fmt.Errorf("%w: the kernel's arguments have %d bytes; at most %d are allowed", ErrTooLarge, len(line), MaxArguments)
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("%w: the kernel's arguments %.64q are not one line of ASCII", ErrManifest, line)
	}
	for word := range strings.SplitSeq(line, " ") {
		if word == "" {
			return fmt.Errorf("%w: the kernel's arguments %.64q are not words with one space between them", ErrManifest, line)
		}
		if strings.HasPrefix(word, "machined.slot=") {
			return fmt.Errorf("%w: the kernel's arguments have %s; the node adds that itself", ErrManifest, word)
		}
	}
	return nil
}

func (m *Manifest) checkFiles() error {
	if len(m.Files) == 0 {
		return fmt.Errorf("%w: there are no files", ErrManifest)
	}
	if len(m.Files) > MaxFiles {
		return fmt.Errorf("%w: it has %d files; at most %d are allowed", ErrTooLarge, len(m.Files), MaxFiles)
	}
	var total int64
	for i, f := range m.Files {
		if err := checkPath(f.Path); err != nil {
			return err
		}
		if i > 0 {
			if err := checkNeighbours(m.Files[i-1].Path, f.Path); err != nil {
				return err
			}
		}
		if f.Size < 0 || f.Size > MaxFileSize {
			return fmt.Errorf("%w: file %s has %d bytes; want 0 to %d", ErrTooLarge, f.Path, f.Size, MaxFileSize)
		}
		total += f.Size
	}
	if total > MaxTotalSize {
		return fmt.Errorf("%w: all files have %d bytes; at most %d are allowed", ErrTooLarge, total, MaxTotalSize)
	}
	return nil
}
