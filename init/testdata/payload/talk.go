package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// flood writes numbered lines as fast as they are taken.
func flood() error {
	buf := make([]byte, 0, 64<<10)
	for n := uint64(0); ; {
		for len(buf) < cap(buf)-100 {
			buf = strconv.AppendUint(buf, n, 10)
			buf = append(buf, " the quick brown fox jumps over the lazy dog\n"...)
			n++
		}
		if _, err := os.Stdout.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
	}
}

// greet says the how manieth start of it this is, by its lines in a file.
func greet(path string) error {
	if err := note(path, "start"); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fmt.Println("hello", strings.Count(string(text), "\n"))
	fmt.Fprintln(os.Stderr, "listening")
	time.Sleep(time.Hour)
	return nil
}

// crash says something and fails.
func crash(code string) error {
	n, err := strconv.Atoi(code)
	if err != nil {
		return err
	}
	fmt.Println("opening the database")
	fmt.Println("\x1b[31mpanic: no \xff database")
	os.Exit(n)
	return nil
}

// who tells what the kernel makes of this process.
func who() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	fmt.Println("dir:", dir)
	for _, e := range os.Environ() {
		fmt.Println("env:", e)
	}
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fmt.Println(strings.Join(strings.Fields(lines.Text()), " "))
	}
	fmt.Println("end")
	time.Sleep(time.Hour)
	return nil
}

// exists succeeds when there is such a file; a probe asks it.
func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// serve answers HTTP with a status that nobody has heard of while the file is
// there.
func serve(address, path string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return (&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if exists(path) != nil {
			return
		}
		if conn, rw, err := w.(http.Hijacker).Hijack(); err == nil {
			_, _ = rw.WriteString("HTTP/1.1 599 \xff\xfe\x1b[2J " + strings.Repeat("x", 500) + "\r\n\r\n")
			_ = rw.Flush()
			conn.Close()
		}
	})}).Serve(l)
}

// escape leaves a worker behind in a session of its own, which ignores TERM.
func escape() error {
	if err := start("stubborn", true); err != nil {
		return err
	}
	fmt.Println("has left")
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	<-term
	return nil
}
