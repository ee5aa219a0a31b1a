package tftp

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	pin "github.com/pin/tftp/v3"

	"machined/tools/testenv"
)

// TestOtherClients has clients that others wrote read from this server.
func TestOtherClients(t *testing.T) {
	data := pattern(3<<20 + 11)
	f := newFiles(t, map[string]Content{"file": Bytes(data), "even": Bytes(data[:2048])})
	at := serve(t, f.options())
	port := strconv.Itoa(int(at.Port()))
	for _, name := range []string{"file", "even"} {
		want := data[:f.content[name].Size()]
		out := filepath.Join(t.TempDir(), "out")
		for _, args := range [][]string{
			{"curl", "-sS", "-o", out, "tftp://127.0.0.1:" + port + "/" + name},
			{"curl", "-sS", "--tftp-blksize", "1468", "-o", out, "tftp://127.0.0.1:" + port + "/" + name},
			{"curl", "-sS", "--tftp-no-options", "-o", out, "tftp://127.0.0.1:" + port + "/" + name},
			{"tftp", "-m", "binary", "127.0.0.1", port, "-c", "get", name, out},
		} {
			t.Run(name+" "+args[0]+" "+args[2], func(t *testing.T) {
				testenv.Need(t, args[0])
				_ = os.Remove(out)
				if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %v\n%s", args, err, text)
				}
				if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%v: %d bytes, %v; want the file of %d", args, len(got), err, len(want))
				}
			})
		}
		t.Run(name+" pin", func(t *testing.T) {
			c, err := pin.NewClient(at.String())
			if err != nil {
				t.Fatal(err)
			}
			c.SetBlockSize(1428)
			c.RequestTSize(true)
			r, err := c.Receive(name, "octet")
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if _, err := r.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%d bytes, %v; want the file of %d", got.Len(), err, len(want))
			}
		})
	}
}
