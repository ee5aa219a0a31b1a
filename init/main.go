// Command init is machined: PID 1 of a node. The kernel starts it from the
// initramfs as stage 1; it finds the slot that the firmware chose and executes
// itself from there as stage 2, which runs for as long as the machine does.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"machined/hal"
	"machined/hal/linux"
	"machined/init/console"
)

// version is what `git describe` says; the build sets it.
var version = "unknown"

func main() { os.Exit(run(os.Args[1:], os.Getpid())) }

// run returns only when this is not PID 1: a PID 1 that ends takes the kernel
// with it.
func run(args []string, pid int) int {
	if pid != 1 {
		fmt.Printf("machined %s is the init of a node and runs as PID 1; use machinectl to reach one\n", version)
		return 2
	}
	// Half of Go's usual head room: the heap is small, and memory is the board's
	// scarcest good.
	debug.SetGCPercent(50)
	log := console.New(linux.Clock{}.SinceBoot, openConsoles(os.Stdout, "/")...)
	m := machine{log: log, power: linux.Power{}, sleep: time.Sleep}
	m.live(func() (request, error) {
		h, err := start(args, log)
		if err != nil {
			return request{}, err
		}
		n, err := newNode(log, h)
		if err != nil {
			return request{}, err
		}
		n.watchSignals()
		return n.stage2()
	})
	return 1
}

// machine is what PID 1 needs to end the machine. The rest may be broken.
type machine struct {
	log   *console.Log
	power hal.Power
	root  string // see node
	sleep func(time.Duration)
}

// live runs body and ends the machine as it says; after an error or a panic it
// restarts. It does not return while the machine is there.
func (m machine) live(body func() (request, error)) {
	var r request
	err := guarded(func() (err error) {
		r, err = body()
		return err
	})
	if err != nil {
		m.emergency(err)
		r = request{}
	}
	m.finish(r)
}

// start returns what stage 1 found, in this start of the program or an earlier
// one.
func start(args []string, log *console.Log) (handover, error) {
	if len(args) > 0 && args[0] == stage2Arg {
		return parseHandover(os.Environ())
	}
	return stage1(log, linux.Mounts{})
}

// ending is how the machine ends.
type ending int

const (
	restart ending = iota
	powerOff
)

// finish ends the machine, and does not return while it is there.
func (m machine) finish(r request) {
	for {
		m.log.Flush(2 * time.Second)
		var err error
		switch {
		case r.end == powerOff:
			err = m.power.PowerOff()
		case r.kexec:
			err = m.power.StartKernel()
		default:
			err = m.power.Restart(r.argument)
		}
		m.log.Printf("power", "Trying again: %v.", err)
		r = request{}
		m.sleep(5 * time.Second)
	}
}

const (
	// emergencyDelay leaves time to read the console before the restart.
	emergencyDelay = 10 * time.Second
	crashFile      = stateDir + "/last-crash.txt"
	crashWait      = 5 * time.Second
)

// emergency reports an error that would end PID 1, and keeps it for the next
// boot where STATE is mounted.
func (m machine) emergency(err error) {
	m.log.Printf("emergency", "%v.", err)
	delay := emergencyDelay
	if _, err := os.Stat(filepath.Join(m.root, trialMark)); err == nil {
		delay = 0 // nobody is to read this: the other system takes over
	}
	m.log.Printf("emergency", "Restarting in %s.", delay)
	kept := make(chan struct{})
	go func() { defer close(kept); keepCrash(m.root, err) }()
	select {
	case <-kept:
	case <-time.After(crashWait): // of a disk that is dead; without a watchdog it would be the end
	}
	m.log.Flush(2 * time.Second)
	m.sleep(delay)
}

// keepCrash does what it can: it runs when something is broken already.
func keepCrash(root string, err error) {
	if _, statErr := os.Stat(filepath.Join(root, stateMarker)); statErr != nil {
		return
	}
	text := fmt.Sprintf("%s\nmachined %s\n%v\n", time.Now().UTC().Format(time.RFC3339), version, err)
	_ = writeSynced(filepath.Join(root, crashFile), []byte(text))
}

// writeSynced writes a file that is on the disk when it returns.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// guarded turns a panic of run into an error with the stack.
func guarded(run func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return run()
}
