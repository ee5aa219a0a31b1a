package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
)

// lockTime bounds the wait for a database that another containerd holds.
const lockTime = 10 * time.Second

// verifyCommand looks into the databases below containerd's root: it prints a
// line for each that is damaged, and fails if there is one.
func verifyCommand(_ context.Context, args []string, stdout, _ io.Writer) error {
	if len(args) != 1 {
		return &usageError{errors.New("verify takes containerd's root directory and no other arguments")}
	}
	files, err := filepath.Glob(filepath.Join(args[0], "*", "*.db"))
	if err != nil {
		return err
	}
	damaged := 0
	for _, file := range files {
		if err := verify(file); err != nil {
			damaged++
			fmt.Fprintf(stdout, "%s: %v\n", file, err)
		}
	}
	if damaged > 0 {
		return fmt.Errorf("%d of %d databases are damaged", damaged, len(files))
	}
	return nil
}

// verify reads all of a database. Damage makes the library panic, or read beyond
// the file's end.
func verify(file string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it cannot be read: %v", p)
		}
	}()
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		return err // an empty one is made anew
	}
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTime})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		// Before Check, which reads in a goroutine whose panics nobody catches.
		if err := tx.ForEach(func(_ []byte, b *bolt.Bucket) error { return walk(b) }); err != nil {
			return err
		}
		for err := range tx.Check() {
			return err
		}
		return nil
	})
}

func walk(b *bolt.Bucket) error {
	return b.ForEach(func(k, v []byte) error {
		if v != nil {
			return nil
		}
		sub := b.Bucket(k)
		if sub == nil {
			return fmt.Errorf("the bucket %q is missing", k)
		}
		return walk(sub)
	})
}
