package tftp

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"
)

// TestProgress: a transfer tells how far it is, not more than four times a second.
func TestProgress(t *testing.T) {
	const blocks = 60
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(blocks * 512))})
	cl := newClient(t, serve(t, f.options()))
	start := time.Now()
	cl.each = func(int64, []byte) bool { time.Sleep(20 * time.Millisecond); return true }
	if _, err := cl.read("file"); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	f.last(1)
	var n int
	last := int64(0)
	for _, e := range f.events {
		if e.Kind != Progress {
			continue
		}
		n++
		if e.Bytes <= last || e.Bytes >= e.Total || e.Total != blocks*512 || e.Name != "file" {
			t.Errorf("an event is %+v, behind %d bytes", e, last)
		}
		last = e.Bytes
	}
	if most := int(took/(time.Second/4)) + 1; n < 2 || n > most {
		t.Errorf("%d events in %v; want 2 to %d", n, took, most)
	}
	if k := f.events[0]; k.Kind != Started || k.Total != blocks*512 {
		t.Errorf("the first event is %+v; want started", k)
	}
}

func TestLogger(t *testing.T) {
	c := Client{Addr: netip.MustParseAddrPort("10.0.0.100:49152")}
	for want, e := range map[string]Event{
		"level=INFO msg=\"tftp started\" client=10.0.0.100:49152 file=a bytes=0 total=9 reason=\"blksize 512, windowsize 1\"\n": {Kind: Started, Client: c, Name: "a", Total: 9, Reason: "blksize 512, windowsize 1"},
		"level=INFO msg=\"tftp done\" client=10.0.0.100:49152 file=a bytes=9 total=9 took=2s\n":                                 {Kind: Done, Client: c, Name: "a", Bytes: 9, Total: 9, Took: 2 * time.Second},
		"level=INFO msg=\"tftp aborted\" client=10.0.0.100:49152 file=a bytes=0 total=9 reason=size normal=true\n":              {Kind: Aborted, Client: c, Name: "a", Total: 9, Normal: true, Reason: "size"},
		"level=WARN msg=\"tftp failed\" client=10.0.0.100:49152 file=a bytes=5 total=9 error=silence\n":                         {Kind: Failed, Client: c, Name: "a", Bytes: 5, Total: 9, Err: errors.New("silence")},
		"": {Kind: Progress, Client: c, Name: "a", Bytes: 5, Total: 9},
	} {
		var b bytes.Buffer
		Logger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: withoutTime})))(e)
		if b.String() != want {
			t.Errorf("%+v is logged as\n%s; want\n%s", e, b.String(), want)
		}
	}
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
