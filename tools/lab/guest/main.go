// Command guest is what the runtime tests run on a node: as a service, and as
// the one file of a container image. Its first argument says what it does.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	args := os.Args[1:]
	// As PID 1 it is told by the kernel's arguments, whose order is the loader's.
	if do := os.Getenv("guest"); os.Getpid() == 1 && do != "" {
		args = []string{do}
	}
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say what to do: serve ADDRESS, agent URL, crash CODE, eat URL, leak, flood, wait, unless WORD, hang")
	}
	argument := ""
	if len(args) > 1 {
		argument = args[1]
	}
	switch args[0] {
	case "serve":
		return serve(argument)
	case "agent":
		return agent(argument)
	case "crash":
		code, err := strconv.Atoi(argument)
		fmt.Println("about to fail")
		fmt.Fprintln(os.Stderr, "failing with", code)
		if err == nil {
			os.Exit(code)
		}
		return err
	case "eat":
		return eat(argument)
	case "leak":
		return leak()
	case "flood":
		return flood()
	case "wait":
		return wait()
	case "unless":
		cmdline, err := os.ReadFile("/proc/cmdline")
		if err == nil && strings.Contains(string(cmdline), argument) {
			err = fmt.Errorf("the kernel was told %s", argument)
		}
		if err != nil {
			return err
		}
		return wait()
	case "hang":
		return hang()
	case "once":
		return once(args[1:])
	case "nothing":
		return nil
	}
	return fmt.Errorf("unknown work %q", args[0])
}

// serve answers HTTP: / with its host name, /fetch?url= with what another
// answers.
func serve(address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		name, _ := os.Hostname()
		fmt.Fprintf(w, "guest on %s, %s\n", name, os.Getenv("GREETING"))
	})
	mux.HandleFunc("/fetch", func(w http.ResponseWriter, r *http.Request) {
		body, err := fetch(r.URL.Query().Get("url"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, body)
	})
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		if err := os.WriteFile(r.URL.Query().Get("path"), []byte("written\n"), 0o644); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	fmt.Println("serving on", address)
	go func() {
		if err := wait(); err == nil {
			os.Exit(0)
		}
	}()
	return http.ListenAndServe(address, mux)
}

func fetch(from string) (string, error) {
	client := http.Client{Timeout: 20 * time.Second}
	resp, err := client.Get(from)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// agent asks the test for work, does it, and tells what came of it. It stands in
// for the shell that a node does not have.
func agent(from string) error {
	for {
		work, err := fetch(from + "/work")
		if err != nil || work == "" {
			if err != nil {
				time.Sleep(time.Second)
			}
			continue
		}
		answer, err := do(strings.Fields(work))
		if err != nil {
			answer = "error: " + err.Error()
		}
		resp, err := http.PostForm(from+"/done", url.Values{"answer": {answer}})
		if err == nil {
			resp.Body.Close()
		}
	}
}

func do(work []string) (string, error) {
	if len(work) == 0 {
		return "", nil
	}
	switch {
	case work[0] == "fetch" && len(work) == 2:
		return fetch(work[1])
	case work[0] == "signal" && len(work) == 3:
		number, err := strconv.Atoi(work[2])
		if err != nil {
			return "", err
		}
		return "", signalAll(work[1], syscall.Signal(number))
	case work[0] == "read" && len(work) == 2:
		b, err := os.ReadFile(work[1])
		return string(b), err
	case work[0] == "damage" && len(work) == 2:
		return "", damage(work[1])
	case work[0] == "exists" && len(work) == 2:
		_, err := os.Stat(work[1])
		return strconv.FormatBool(err == nil), nil
	case work[0] == "status" && len(work) == 2:
		return status(work[1])
	}
	return "", fmt.Errorf("unknown work %q", work)
}

// damage writes noise over the second half of a file, as a failing card does.
func damage(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	noise := make([]byte, info.Size()-info.Size()/2)
	for i := range noise {
		noise[i] = byte(i*7 + i>>8)
	}
	_, err = f.WriteAt(noise, info.Size()/2)
	return errors.Join(err, f.Sync())
}

// signalAll signals the processes whose program has that name.
func signalAll(name string, s syscall.Signal) error {
	pids, err := find(name)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %s (%d): %w", name, pid, err)
		}
	}
	return nil
}

func find(name string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if b, err := os.ReadFile("/proc/" + e.Name() + "/comm"); err == nil && strings.TrimSpace(string(b)) == name {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("no process is called %s", name)
	}
	return pids, nil
}

// status returns /proc/PID/status of a program.
func status(name string) (string, error) {
	pids, err := find(name)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[0]))
	return string(b), err
}

// eat takes all memory that it gets, once the test has said so.
func eat(from string) error {
	for {
		if answer, err := fetch(from + "/eat"); err == nil && strings.TrimSpace(answer) == "eat" {
			break
		}
		time.Sleep(time.Second)
	}
	fmt.Println("eating")
	return grow(0)
}

// leak takes ever more memory, slowly.
func leak() error { return grow(20 * time.Millisecond) }

// grow takes a MiB after another, until it is ended for that.
func grow(pause time.Duration) error {
	var taken [][]byte
	for {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = byte(len(taken)) + 1
		}
		taken = append(taken, b)
		time.Sleep(pause)
	}
}

// flood writes as fast as it is read.
func flood() error {
	w := bufio.NewWriterSize(os.Stdout, 64<<10)
	for i := 0; ; i++ {
		if _, err := fmt.Fprintf(w, "%08d a line of a service that has much to say about nothing at all\n", i); err != nil {
			return err
		}
	}
}

// once becomes another program, if a file is not there yet.
func once(args []string) error {
	if len(args) < 2 {
		return errors.New("once takes a file, a program and its arguments")
	}
	if _, err := os.Stat(args[0]); err == nil {
		return nil
	}
	if err := os.WriteFile(args[0], nil, 0o644); err != nil {
		return err
	}
	return syscall.Exec(args[1], args[1:], os.Environ())
}

// wait ends well when it is asked to.
func wait() error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	<-c
	fmt.Println("asked to end")
	return nil
}

// hang is an init that arms the watchdog, as machined does, and then does nothing
// any more. That of the Pi's model would reset at once: there is the argument that
// leaves it alone.
func hang() error {
	if err := os.MkdirAll("/proc", 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil && !errors.Is(err, syscall.EBUSY) {
		return err
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	if strings.Contains(string(cmdline), "machined.watchdog=off") {
		fmt.Println("guest: hanging, without a watchdog")
		return wait()
	}
	if err := os.MkdirAll("/dev", 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("devtmpfs", "/dev", "devtmpfs", 0, ""); err != nil && !errors.Is(err, syscall.EBUSY) {
		return err
	}
	f, err := os.OpenFile("/dev/watchdog", os.O_WRONLY, 0)
	fmt.Println("guest: hanging, the watchdog:", f != nil, err)
	return wait()
}
