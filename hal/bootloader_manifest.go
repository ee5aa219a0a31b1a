package hal

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// SlotManifestName is the file that marks a slot as whole. It is written after
// all others, and removed before them.
const SlotManifestName = "manifest.json"

// ErrManifest says that a manifest is damaged.
const ErrManifest Error = "not the manifest of a slot"

// SlotManifest says what a slot must hold to be whole.
type SlotManifest struct {
	Version string
	Board   string
	Files   []SlotFile
}

// String returns the manifest as it is kept: JSON (RFC 8259), in the shape that
// the builder of images gives it.
func (m SlotManifest) String() string {
	text := "{\n  \"version\": " + quoted(m.Version) + ",\n  \"board\": " + quoted(m.Board) + ",\n  \"files\": ["
	for i, f := range m.Files {
		if i > 0 {
			text += ","
		}
		text += "\n    {\n      \"path\": " + quoted(f.Path) +
			",\n      \"size\": " + strconv.FormatInt(f.Size, 10) +
			",\n      \"sha256\": \"" + hexadecimal(f.SHA256) + "\"\n    }"
	}
	if len(m.Files) > 0 {
		text += "\n  "
	}
	return text + "]\n}\n"
}

const digits = "0123456789abcdef"

func hexadecimal(sum [32]byte) string {
	var text [64]byte
	for i, b := range sum {
		text[2*i], text[2*i+1] = digits[b>>4], digits[b&15]
	}
	return string(text[:])
}

// quoted writes a JSON string. Paths and versions are plain text, and so are
// kept to it: see plain.
func quoted(s string) string { return `"` + s + `"` }

// plain reports whether a text needs no escapes in JSON, however it is written:
// valid UTF-8 without control characters, quotes, backslashes, and what some
// writers escape for HTML's sake.
func plain(s string) bool {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == utf8.RuneError || r == 0x2028 || r == 0x2029 || strings.ContainsRune(`"\<>&`, r) {
			return false
		}
	}
	return true
}

// ParseSlotManifest reads what String writes, with any white space, and
// nothing else: what was cut off or damaged is ErrManifest.
func ParseSlotManifest(text []byte) (SlotManifest, error) {
	p := manifestParser{rest: string(text)}
	m := SlotManifest{}
	p.token("{")
	m.Version = p.member("version")
	p.token(",")
	m.Board = p.member("board")
	p.token(",")
	p.key("files")
	p.token("[")
	for more := !p.found("]"); more && !p.failed; {
		m.Files = append(m.Files, p.file())
		if !p.found(",") {
			p.token("]")
			more = false
		}
	}
	p.token("}")
	p.space()
	if p.failed || p.rest != "" {
		return SlotManifest{}, ErrManifest
	}
	return m, nil
}

// manifestParser consumes rest. Once failed is set it consumes nothing.
type manifestParser struct {
	rest   string
	failed bool
}

func (p *manifestParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *manifestParser) found(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok && !p.failed {
		p.rest = rest
	}
	return ok
}

func (p *manifestParser) token(token string) { p.failed = !p.found(token) || p.failed }

func (p *manifestParser) key(name string) {
	p.token(quoted(name))
	p.token(":")
}

// member reads "name": "value".
func (p *manifestParser) member(name string) string {
	p.key(name)
	p.token(`"`)
	value, rest, ok := strings.Cut(p.rest, `"`)
	if !ok || !plain(value) {
		p.failed = true
	}
	if p.failed {
		return ""
	}
	p.rest = rest
	return value
}

func (p *manifestParser) file() SlotFile {
	var f SlotFile
	p.token("{")
	f.Path = p.member("path")
	p.token(",")
	p.key("size")
	f.Size = p.number()
	p.token(",")
	sum := p.member("sha256")
	p.token("}")
	p.failed = p.failed || !validSlotPath(f.Path) || len(sum) != 2*len(f.SHA256)
	for i := 0; i < len(sum) && !p.failed; i++ {
		digit := strings.IndexByte(digits, sum[i])
		if digit < 0 {
			p.failed = true
			break
		}
		f.SHA256[i/2] = f.SHA256[i/2]<<4 | byte(digit)
	}
	return f
}

func (p *manifestParser) number() int64 {
	p.space()
	end := 0
	for end < len(p.rest) && p.rest[end] >= '0' && p.rest[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(p.rest[:end], 10, 64)
	if err != nil || end > 1 && p.rest[0] == '0' || p.failed {
		p.failed = true
		return 0
	}
	p.rest = p.rest[end:]
	return n
}

// validSlotPath reports whether a path is below the slot's directory, clean,
// and a name that FAT can hold.
func validSlotPath(path string) bool {
	if path == "" || !plain(path) || strings.ContainsAny(path, `\:*?|`) {
		return false
	}
	for rest, more := path, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if name == "" || len(name) > 200 || strings.HasSuffix(name, ".") || name[0] == ' ' || strings.HasSuffix(name, " ") {
			return false // "." and ".." end with a dot
		}
	}
	return true
}
