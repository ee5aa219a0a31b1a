// Command payload plays the services of the tests that start machined as PID 1:
// a root of their own has no shell.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(what string, args []string) error {
	switch what {
	case "sleep": // until it is ended
		time.Sleep(time.Hour)
		return nil
	case "nap":
		time.Sleep(300 * time.Millisecond)
		return nil
	case "ordered":
		return ordered(args[0], args[1], args[2])
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignores TERM")
		time.Sleep(time.Hour)
		return nil
	case "orphans":
		return orphans(args[0])
	case "leaver": // leaves a worker behind and fails
		return leave()
	case "flood":
		return flood()
	case "greet":
		return greet(args[0])
	case "crash":
		return crash(args[0])
	case "who":
		return who()
	case "exists":
		return exists(args[0])
	case "serve":
		return serve(args[0], args[1])
	case "escape":
		return escape()
	}
	return fmt.Errorf("payload: unknown command %q", what)
}

// ordered notes its start, and its end after a TERM and a while.
func ordered(name, log, while string) error {
	d, err := time.ParseDuration(while)
	if err != nil {
		return err
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	if err := note(log, "start "+name); err != nil {
		return err
	}
	<-term
	time.Sleep(d)
	return note(log, "stop "+name)
}

func note(path, line string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, line)
	return err
}

// orphans starts that many processes which outlive it: every second one has a
// session of its own, and so is no part of the service any more.
func orphans(count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for i := range n {
		if err := start("nap", i%2 == 0); err != nil {
			return err
		}
	}
	fmt.Println("orphans", n)
	return nil
}

// start starts this program again and does not wait for it.
func start(what string, session bool) error {
	_, err := syscall.ForkExec("/proc/self/exe", []string{"payload", what}, &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: session},
	})
	return err
}

func leave() error {
	if err := start("sleep", false); err != nil {
		return err
	}
	return fmt.Errorf("the leader fails")
}
