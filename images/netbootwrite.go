package images

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// writeWhole makes the file at path appear whole: it is written beside it and
// flushed before it gets its name. total is about how many bytes there are.
func writeWhole(path string, total int64, progress func(done, total int64), write func(w io.Writer) error) (err error) {
	if err := checkOutputs([]string{path}); err != nil {
		return err
	}
	f, err := os.OpenFile(partial(path), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(partial(path))
		}
	}()
	if err := write(&countedWriter{w: f, total: total, progress: progress}); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return rename(path)
}

// rename gives a file that is written its name, for good.
func rename(path string) error {
	if err := os.Rename(partial(path), path); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // directories cannot be flushed there
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReplaceFile writes a file that has the old or the new content whenever the
// computer stops.
func ReplaceFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	err := writeWhole(path, int64(len(data)), nil, func(w io.Writer) error {
		if err := os.Chmod(partial(path), mode); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// countedWriter tells how far it has come.
type countedWriter struct {
	w           io.Writer
	done, total int64
	progress    func(done, total int64)
}

// Write implements io.Writer.
func (w *countedWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	w.done += int64(n)
	if w.progress != nil {
		w.progress(min(w.done, w.total), w.total)
	}
	return n, err
}

// gzipFile packs a file, without a name or a time in the header (RFC 1952).
func gzipFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// Most of it is packed already; a better level takes seconds and saves little.
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	_, err = io.Copy(z, f)
	return errors.Join(err, z.Close())
}
