package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestVerify damages a database in all the ways that a card does: it has to be
// told from a good one, and never crash the program.
func TestVerify(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "io.containerd.metadata.v1.bolt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "meta.db")
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for i := range 20 {
			b, err := tx.CreateBucket(fmt.Appendf(nil, "bucket %d", i))
			if err != nil {
				return err
			}
			sub, err := b.CreateBucket([]byte("below"))
			if err != nil {
				return err
			}
			for k := range 200 {
				if err := sub.Put(fmt.Appendf(nil, "key %d", k), bytes.Repeat([]byte{byte(k)}, 50)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func() (int, string) {
		var out bytes.Buffer
		return run(context.Background(), []string{"verify", root}, &out, &out), out.String()
	}
	if code, out := check(); code != 0 || out != "" {
		t.Errorf("verify of a good database = %d, %q", code, out)
	}
	for name, data := range map[string][]byte{
		"cut": good[:len(good)/2/4096*4096], "a page": good[:5000], "zeros": make([]byte, len(good)),
		"zeros within": bytes.Join([][]byte{good[:16384], make([]byte, 65536), good[16384+65536:]}, nil),
		"noise within": bytes.Join([][]byte{good[:16384], bytes.Repeat([]byte{0xa5, 0x5a, 0xff}, 30000), good[16384+90000:]}, nil),
		"text":         []byte(strings.Repeat("not a database\n", 1000)),
	} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out := check(); code != 1 || !strings.Contains(out, "meta.db: ") {
			t.Errorf("verify of a database with %s = %d, %q; want 1 and its name", name, code, out)
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := check(); code != 0 {
		t.Errorf("verify of an empty file = %d, %q; want 0", code, out)
	}
	if code, _ := check(); code != 0 {
		t.Error("verify changes what it looks at")
	}
	var out bytes.Buffer
	if code := run(context.Background(), []string{"verify"}, &out, &out); code != 2 {
		t.Errorf("verify without a directory = %d; want 2", code)
	}
}
