// Command soak has a node in QEMU work under all that wears it down: services
// that crash, flood and leak, a link whose cable comes and goes, clients that
// come and go. After that machined must have what it had after the first minute:
// memory, goroutines and open files.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"machined/board"
	"machined/tools/lab"
	"machined/tools/qemu"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const (
	// boardName boots fastest.
	boardName = "arm64-mbr"
	// patience is a time-out: emulation on a busy machine is slow.
	patience = 5 * time.Minute
	// warmUp is the time after which nothing is to grow any more, and window the
	// time over which values are taken at both ends.
	warmUp, window = time.Minute, time.Minute
	sampleEvery    = 5 * time.Second
	flapEvery      = 3 * time.Second
	leastMinutes   = 3
)

const config = `machine:
  hostname: ` + lab.Hostname + `
  services:
    - {id: crash, command: [` + lab.GuestProgram + `, crash, "3"], restart: always}
    - {id: flood, command: [` + lab.GuestProgram + `, flood], restart: always, limits: {cpu_max: 30%}}
    - {id: leak, command: [` + lab.GuestProgram + `, leak], restart: always, limits: {memory_max: 48MiB}}
    - {id: probed, command: [` + lab.GuestProgram + `, serve, "127.0.0.1:8088"], restart: always, probe: {http: "http://127.0.0.1:8088/", period_secs: 1}}
  pods:
    - {name: crash, image: ` + lab.GuestImage + `, args: [crash, "1"]}
    - {name: serve, image: ` + lab.GuestImage + `, args: [serve, ":80"], probe: {http: "http://127.0.0.1:80/", period_secs: 2}}
`

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	store := flags.String("parts", "build/parts", "directory that `make parts` filled")
	minutes := flags.Int("minutes", 10, "how long")
	console := flags.String("console", "", "file that gets the node's console")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *minutes < leastMinutes {
		fmt.Fprintf(stderr, "soak: -minutes is %d; want at least %d, since the first minute is not judged\n", *minutes, leastMinutes)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	samples, err := soak(ctx, *store, *console, time.Duration(*minutes)*time.Minute, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err)
		return 1
	}
	if !report(stdout, samples) {
		return 1
	}
	return 0
}

func soak(ctx context.Context, store, console string, length time.Duration, stderr io.Writer) ([]sample, error) {
	dir, err := lab.Scratch()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b, ok := board.ByName(boardName)
	if !ok {
		return nil, fmt.Errorf("the table of boards lacks %s", boardName)
	}
	program, image, err := lab.Guest(dir, b)
	if err != nil {
		return nil, err
	}
	node, err := lab.Build(lab.Options{
		Board: b, Parts: store, Dir: dir, Config: []byte(config), Containers: []string{image}, Programs: map[string]string{"guest": program},
	})
	if err != nil {
		return nil, err
	}
	out := io.Discard
	if console != "" {
		f, err := os.Create(console)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		out = f
	}
	vm, err := node.Start(out, func(o *qemu.Options) { o.SecondNIC = true })
	if err != nil {
		return nil, err
	}
	defer vm.Close()
	booting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := lab.WaitAPI(booting, vm, node.Bundle, ""); err != nil {
		return nil, err
	}
	working, end := context.WithTimeout(ctx, length)
	defer end()
	l := &load{vm: vm, bundle: node.Bundle}
	defer l.wait()
	l.start(working)
	return watch(working, vm, node.Bundle, length, stderr)
}
