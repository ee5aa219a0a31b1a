package images

import (
	"crypto/sha256"
	"hash"
	"os"
)

// bundleWriter writes a file, takes its hash, and tells how far it has come.
type bundleWriter struct {
	f           *os.File
	sum         hash.Hash
	done, total int64 // bytes; the total is that of the files in the bundle
	progress    func(done, total int64)
}

func createBundle(path string, total int64, progress func(done, total int64)) (*bundleWriter, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &bundleWriter{f: f, sum: sha256.New(), total: total, progress: progress}, nil
}

// Write implements io.Writer.
func (w *bundleWriter) Write(b []byte) (int, error) {
	n, err := w.f.Write(b)
	w.sum.Write(b[:n])
	w.done += int64(n)
	if w.progress != nil {
		w.progress(min(w.done, w.total), w.total)
	}
	return n, err
}
