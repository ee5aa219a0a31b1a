package logring

import (
	"bytes"
	"io"
)

// Sink takes lines. It must not keep text.
type Sink func(text []byte)

// Lines reads lines until the reader's end and gives them to sink: without their
// end, also without a carriage return there, those that are longer than MaxLine
// in parts, and the last one also when it does not end. It needs one buffer, of
// fixed size.
func Lines(from io.Reader, sink Sink) error {
	buf := make([]byte, MaxLine)
	n := 0
	cut := false // what comes next continues a line that was given in part
	for {
		m, err := from.Read(buf[n:])
		n += m
		rest := buf[:n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			if i > 0 || !cut {
				sink(bytes.TrimSuffix(rest[:i], []byte{'\r'}))
			}
			cut = false
			rest = rest[i+1:]
		}
		n = copy(buf, rest)
		if n == len(buf) || err != nil && n > 0 {
			sink(buf[:n])
			n, cut = 0, true
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
