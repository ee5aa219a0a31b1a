package progress

import (
	"bytes"
	"os"
	"testing"
)

// TestSilentWithoutTerminal draws nothing into files, pipes and buffers.
func TestSilentWithoutTerminal(t *testing.T) {
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var buffer bytes.Buffer
	if IsTerminal(pipe) || IsTerminal(&buffer) || IsTerminal(nil) {
		t.Error("IsTerminal() = true of a pipe, a buffer or nothing; want false")
	}
	if Bytes(pipe, "what") != nil || Bytes(&buffer, "what") != nil {
		t.Error("Bytes() gives a callback without a terminal; want nil")
	}
	Spin(pipe, "what")()
	Spin(&buffer, "what")()
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if n, err := written.ReadFrom(r); n != 0 || err != nil || buffer.Len() != 0 {
		t.Errorf("written: %q and %q, %v; want nothing", written.String(), buffer.String(), err)
	}
}
