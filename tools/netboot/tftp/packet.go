package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Packet types of RFC 1350, section 5, and RFC 2347.
const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
	opOACK  = 6
)

// Error codes of RFC 1350, section 5, and RFC 2347.
const (
	codeUndefined   = 0
	codeNotFound    = 1
	codeAccess      = 2
	codeIllegal     = 4
	codeNegotiation = 8
)

const (
	headerSize = 4 // of DATA and ACK: type and block number

	// maxRequest is what RFC 2347 allows for a request, in bytes.
	maxRequest = 512
	maxName    = 255
)

var (
	errNotRequest = errors.New("not a request of TFTP")
	errWrite      = errors.New("write requests are refused: this server is read-only")
	errMode       = errors.New("only the transfer mode octet is served")
)

// option is one of a request's, as the client spelled it: RFC 2347 has the
// answer repeat the name, and names are compared without case.
type option struct{ name, value string }

// request is a read request, RFC 1350 with the options of RFC 2347.
type request struct {
	name    string
	options []option
}

// parseRequest reads the first packet of a transfer. An error that is errWrite
// or errMode is one to tell the client; what is errNotRequest gets no answer.
func parseRequest(p []byte) (request, error) {
	if len(p) < 2 || len(p) > maxRequest {
		return request{}, fmt.Errorf("%d bytes: %w", len(p), errNotRequest)
	}
	switch op := binary.BigEndian.Uint16(p); op {
	case opRead:
	case opWrite:
		return request{}, errWrite
	default:
		return request{}, fmt.Errorf("packet type %d: %w", op, errNotRequest)
	}
	words, err := splitWords(p[2:])
	if err != nil {
		return request{}, err
	}
	if len(words) < 2 || words[0] == "" || len(words[0]) > maxName {
		return request{}, fmt.Errorf("no usable file name and mode: %w", errNotRequest)
	}
	r := request{name: words[0]}
	if !strings.EqualFold(words[1], "octet") {
		return r, errMode
	}
	// A name without a value is the rest of a broken option, and does no harm.
	for rest := words[2:]; len(rest) >= 2; rest = rest[2:] {
		r.options = append(r.options, option{rest[0], rest[1]})
	}
	return r, nil
}

// splitWords splits at the zero bytes. Bytes behind the last one are padding of
// some boot ROMs where all of them are zero, and an error where not.
func splitWords(p []byte) ([]string, error) {
	var words []string
	for len(p) > 0 {
		i := bytes.IndexByte(p, 0)
		if i < 0 {
			return nil, fmt.Errorf("a word without an end: %w", errNotRequest)
		}
		words = append(words, string(p[:i]))
		p = p[i+1:]
	}
	return words, nil
}

func appendOACK(p []byte, options []option) []byte {
	p = binary.BigEndian.AppendUint16(p, opOACK)
	for _, o := range options {
		p = append(append(p, o.name...), 0)
		p = append(append(p, o.value...), 0)
	}
	return p
}

func appendError(p []byte, code uint16, message string) []byte {
	p = binary.BigEndian.AppendUint16(p, opError)
	p = binary.BigEndian.AppendUint16(p, code)
	return append(append(p, message...), 0)
}

// answer is what a client sends during a transfer.
type answer struct {
	op      uint16
	block   uint16 // of an ACK
	code    uint16 // of an ERROR
	message string // of an ERROR, printable and short
}

// parseAnswer reads a packet of a running transfer. False is one that is no
// ACK and no ERROR, and is dropped.
func parseAnswer(p []byte) (answer, bool) {
	if len(p) < headerSize {
		return answer{}, false
	}
	a, n := answer{op: binary.BigEndian.Uint16(p)}, binary.BigEndian.Uint16(p[2:])
	switch a.op {
	case opAck:
		a.block = n
	case opError:
		a.code = n
		a.message = printable(p[headerSize:])
	default:
		return answer{}, false
	}
	return a, true
}

// printable makes a client's text fit for a log.
func printable(p []byte) string {
	const most = 80
	if i := bytes.IndexByte(p, 0); i >= 0 {
		p = p[:i]
	}
	p = p[:min(len(p), most)]
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, string(p))
}
