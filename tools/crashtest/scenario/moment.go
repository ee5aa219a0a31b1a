package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// NoteBytes is the size of a moment on the disk: one sector.
const NoteBytes = 512

// Encode returns the moment as a sector.
func (m Moment) Encode() ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(text) > NoteBytes {
		return nil, fmt.Errorf("the note %s is longer than %d bytes", text, NoteBytes)
	}
	return append(text, make([]byte, NoteBytes-len(text))...), nil
}

// DecodeMoment reads what Encode returns.
func DecodeMoment(sector []byte) (Moment, error) {
	var m Moment
	if err := json.Unmarshal(bytes.TrimRight(sector, "\x00"), &m); err != nil {
		return m, fmt.Errorf("read the note %q: %w", sector, err)
	}
	return m, nil
}
