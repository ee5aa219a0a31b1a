package linux

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
)

// warm has the disk give out what execve(2) is going to read of a program. The
// thread that waits for that call cannot be stopped by the Go runtime, and the next
// garbage collection would wait for it with all that machined does: a card that
// stalls would bring the watchdog's reset. For a read the runtime waits without
// harm. What cannot be read is for execve to complain of.
func warm(program, dir string) {
	_, _ = os.Stat(dir)
	for range maxInterpreters {
		head := readHead(program)
		if program = interpreter(head); program == "" {
			return
		}
	}
}

// maxInterpreters is more than how deep Linux goes (fs/exec.c), the program itself
// included.
const maxInterpreters = 6

// headSize is of a program what execve reads before the thread that calls it may go
// on, in bytes: the headers. The rest is read by the program's own page faults.
const headSize = 4 << 10

func readHead(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil // a pipe would be waited for
	}
	head := make([]byte, headSize)
	n, _ := f.ReadAt(head, 0)
	return head[:n]
}

// interpreter returns what a program is executed by: what follows "#!", or the
// dynamic linker of a 64-bit ELF file (elf(5)). It is "" for none.
func interpreter(head []byte) string {
	if script, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ := bytes.Cut(script, []byte("\n"))
		word, _, _ := strings.Cut(strings.TrimLeft(string(line), " \t"), " ")
		return strings.TrimRight(word, "\t\r")
	}
	const (
		header, entry = 64, 56 // sizes of the file's header and of a program header
		ptInterp      = 3
	)
	if len(head) < header || !bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) {
		return ""
	}
	le := binary.LittleEndian
	at, size, count := le.Uint64(head[32:]), uint64(le.Uint16(head[54:])), uint64(le.Uint16(head[56:]))
	for i := uint64(0); i < count && size >= entry && at <= uint64(len(head))-entry; i, at = i+1, at+size {
		p := head[at:]
		from, length := le.Uint64(p[8:]), le.Uint64(p[32:])
		if le.Uint32(p) != ptInterp || from > uint64(len(head)) || length > uint64(len(head))-from {
			continue
		}
		return string(bytes.TrimRight(head[from:from+length], "\x00"))
	}
	return ""
}
