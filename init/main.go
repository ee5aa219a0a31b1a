// Command init is machined: PID 1 of a node. The kernel starts it from the
// initramfs as stage 1; it finds the slot that the firmware chose and executes
// itself from there as stage 2, which runs for as long as the machine does.
package main

import (
	"fmt"
	"os"
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
	clock := linux.Clock{}
	log := console.New(clock.SinceBoot, openConsoles()...)
	power := linux.Power{}
	end := restart
	if err := guarded(func() error {
		h, err := start(args, log)
		if err != nil {
			return err
		}
		end, err = stage2(log, h)
		return err
	}); err != nil {
		emergency(log, err, emergencyDelay)
		end = restart
	}
	finish(log, power, end)
	return 1
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
func finish(log *console.Log, power hal.Power, end ending) {
	for {
		log.Flush(2 * time.Second)
		var err error
		if end == powerOff {
			err = power.PowerOff()
		} else {
			err = power.Restart("")
		}
		log.Printf("power", "Trying again: %v.", err)
		end = restart
		time.Sleep(5 * time.Second)
	}
}

const (
	// emergencyDelay leaves time to read the console before the restart.
	emergencyDelay = 10 * time.Second
	crashFile      = stateDir + "/last-crash.txt"
)

// emergency reports an error that would end PID 1, and keeps it for the next
// boot where STATE is mounted.
func emergency(log *console.Log, err error, delay time.Duration) {
	log.Printf("emergency", "%v.", err)
	log.Printf("emergency", "Restarting in %s.", delay)
	keepCrash(err)
	log.Flush(2 * time.Second)
	time.Sleep(delay)
}

// keepCrash does what it can: it runs when something is broken already.
func keepCrash(err error) {
	if _, statErr := os.Stat(stateMarker); statErr != nil {
		return
	}
	text := fmt.Sprintf("%s\nmachined %s\n%v\n", time.Now().UTC().Format(time.RFC3339), version, err)
	f, openErr := os.OpenFile(crashFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if openErr != nil {
		return
	}
	defer f.Close()
	if _, err := f.WriteString(text); err == nil {
		_ = f.Sync()
	}
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
