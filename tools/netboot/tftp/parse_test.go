package tftp

import (
	"bytes"
	"testing"
)

func FuzzRequest(f *testing.F) {
	for _, s := range []string{"", "\x00", "\x00\x01file\x00octet\x00", "\x00\x02file\x00octet\x00blksize\x001468\x00tsize\x000\x00windowsize\x004\x00",
		"\x00\x01serial/start.elf\x00OCTET\x00tsize\x000\x00\x00\x00", "\x00\x01file\x00octet", "\x00\x04\x00\x01"} {
		f.Add([]byte(s), int64(3000), 1500)
	}
	f.Fuzz(func(t *testing.T, p []byte, size int64, mtu int) {
		r, err := parseRequest(p)
		if err != nil {
			return
		}
		if r.name == "" || bytes.IndexByte([]byte(r.name), 0) >= 0 {
			t.Errorf("the name is %q", r.name)
		}
		terms := negotiate(r.options, size, mtu)
		if terms.blockSize < minBlockSize || terms.blockSize > maxBlockSize || terms.window < 1 || terms.window > maxWindow || len(terms.oack) > 4 {
			t.Errorf("the terms are %+v", terms)
		}
		if mtu >= 576 && terms.blockSize > max(mtu-overhead, defaultBlockSize) {
			t.Errorf("blksize %d at MTU %d", terms.blockSize, mtu)
		}
		for _, o := range terms.oack {
			if !bytes.Contains(p, []byte(o.name)) {
				t.Errorf("%q was not asked for", o.name)
			}
		}
		if name, ok := Clean(r.name); ok && (name[0] == '/' || name == ".." || bytes.HasPrefix([]byte(name), []byte("../"))) {
			t.Errorf("Clean(%q) = %q", r.name, name)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x00\x04\x00\x01"))
	f.Add([]byte("\x00\x05\x00\x08tsize\x00"))
	f.Fuzz(func(t *testing.T, p []byte) {
		a, ok := parseAnswer(p)
		if ok && a.op != opAck && a.op != opError {
			t.Errorf("%q is taken for %+v", p, a)
		}
		for _, r := range a.message {
			if r < ' ' || r > '~' {
				t.Errorf("%q is not printable", a.message)
			}
		}
	})
}
