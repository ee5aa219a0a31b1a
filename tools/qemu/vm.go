// Package qemu runs the image of a board in QEMU, on the machine that models
// the board best. Where QEMU has no firmware for it, piboot plays the firmware
// and chooses anew at each reset.
package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"machined/board"
	"machined/tools/piboot"
)

// Options says what to run.
type Options struct {
	Board board.Board
	// Image is the card or disk. It is not written to.
	Image string
	// Disk is a working copy that outlives the machine: it is made from Image
	// where it does not exist. Empty for a copy that is thrown away.
	Disk string
	// DiskSize is the size of a new working copy in bytes; 0 is 1 GiB. The SD
	// card of the Pi's model needs a power of two.
	DiskSize int64
	MemoryMB int // 0 is 512; the Pi's model has 512 whatever is said
	// APIPort is the port on 127.0.0.1 that leads to the node's API.
	APIPort int
	// Console gets what the serial port prints; nil for nobody.
	Console io.Writer
	// LateDisk leaves the disk out until InsertDisk; not for the Pi's model.
	LateDisk bool
	// USBDisk is a file that PlugUSB plugs in as a second disk; not for the Pi's
	// model. Empty for none.
	USBDisk string
	// SecondNIC gives the machine another NIC, whose cable PlugCable moves; not
	// for the Pi's model.
	SecondNIC bool
	// Initramfs is a file that takes the place of the image's initramfs on a
	// board without firmware; empty for the image's own.
	Initramfs string
	// Append is added to the kernel's arguments of a board without firmware.
	Append string
	// IgnoreTryboot has the firmware of a Pi, which is played, lose the request for
	// a trial boot, as some do.
	IgnoreTryboot bool
}

// VM is a machine that was started.
type VM struct {
	Options
	dir     string // scratch files, removed by Close
	disk    string
	console *watcher
	oneShot piboot.OneShot
	// tryboots is how often the console has shown trybootLine.
	tryboots int
	powered  time.Time

	mu      sync.Mutex
	cmd     *exec.Cmd
	serial  io.Writer // what is typed on the serial console
	starts  int
	killed  bool
	done    chan struct{}
	outcome error
}

const defaultDisk = 1 << 30

// Start starts the machine and returns while it boots.
func Start(o Options) (*VM, error) {
	v := &VM{Options: o, done: make(chan struct{})}
	if v.MemoryMB == 0 {
		v.MemoryMB = 512
	}
	if v.DiskSize == 0 {
		v.DiskSize = defaultDisk
	}
	var err error
	if v.dir, err = os.MkdirTemp("", "machined-qemu-"); err != nil {
		return nil, err
	}
	v.console = newWatcher(o.Console)
	v.disk = o.Disk
	if v.disk == "" {
		v.disk = filepath.Join(v.dir, "disk.img")
	}
	if err = makeDisk(v.disk, o.Image, v.DiskSize); err == nil {
		err = v.launch()
	}
	if err != nil {
		os.RemoveAll(v.dir)
		return nil, fmt.Errorf("start a %s: %w", o.Board.Name, err)
	}
	go v.supervise()
	return v, nil
}

func (v *VM) qmpPath() string   { return filepath.Join(v.dir, "qmp") }
func (v *VM) unimpPath() string { return filepath.Join(v.dir, "unimp.log") }

// directBoot is what QEMU loads itself in place of firmware.
type directBoot struct{ kernel, initramfs, dtb, cmdline string }

// launch starts QEMU once.
func (v *VM) launch() error {
	var boot *directBoot
	if v.Board.Firmware == board.RaspberryPi {
		var err error
		if boot, err = v.playFirmware(); err != nil {
			return err
		}
	}
	program, args, err := v.arguments(boot)
	if err != nil {
		return err
	}
	if v.Board.Name == "rpi-3a-plus" {
		// The driver of its SD card gives up for ever when the model was kept waiting
		// in a transfer, by whatever else the computer does. Without the right to it,
		// nice only warns.
		program, args = "nice", append([]string{"--adjustment=-10", program}, args...)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = v.console, v.console
	cmd.SysProcAttr = dieWithParent()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.killed {
		return errors.New("the machine was switched off")
	}
	serial, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if v.powered.IsZero() {
		v.powered = time.Now()
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s; `make setup` installs it: %w", program, err)
	}
	v.cmd, v.serial = cmd, serial
	v.starts++
	return nil
}

// supervise waits for QEMU to end, and starts it again after a reset of a
// board whose firmware is played.
func (v *VM) supervise() {
	defer close(v.done)
	for {
		err := v.cmd.Wait()
		v.mu.Lock()
		killed := v.killed
		v.mu.Unlock()
		if killed {
			return
		}
		if err != nil {
			v.outcome = fmt.Errorf("QEMU ended: %w; it said: %s", err, v.console.tail())
			return
		}
		if v.Board.Firmware != board.RaspberryPi || v.console.poweredDown() {
			return
		}
		if v.outcome = v.nextBoot(); v.outcome != nil {
			return
		}
	}
}

// nextBoot carries the one-shot flag over the reset.
func (v *VM) nextBoot() error {
	if log, err := os.Open(v.unimpPath()); err == nil {
		requested, err := piboot.TrybootRequested(log)
		log.Close()
		if err != nil {
			return err
		}
		if requested {
			v.oneShot.Request()
		}
	}
	// Where the machine has no mailbox of the firmware's, what the kernel says
	// has to do.
	if asked := v.console.count(trybootLine); asked > v.tryboots {
		v.tryboots = asked
		if v.Board.Name != "rpi-3a-plus" {
			v.oneShot.Request()
		}
	}
	return v.launch()
}

// trybootLine is what the kernel prints when it restarts with that argument.
const trybootLine = "reboot: Restarting system with command '0 tryboot'"

// Starts returns how often QEMU was started: once, and once for each reset of
// a board whose firmware is played.
func (v *VM) Starts() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.starts
}

// Started returns when QEMU was started first: the moment of power.
func (v *VM) Started() time.Time { return v.powered }

// Printed returns how often text is in the last part of the console.
func (v *VM) Printed(text string) int { return v.console.count(text) }

// Done is closed when the machine is off.
func (v *VM) Done() <-chan struct{} { return v.done }

// Wait waits until the machine is off, or ctx ends. A Pi's model cannot switch
// itself off: it halts, and is then taken for off.
func (v *VM) Wait(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-v.done:
			return v.outcome
		case <-ctx.Done():
			return fmt.Errorf("wait for the machine to switch off: %w", ctx.Err())
		case <-tick.C:
			if v.console.poweredDown() && v.Board.Name == "rpi-3a-plus" {
				v.Kill()
			}
		}
	}
}

// Kill cuts the machine's power.
func (v *VM) Kill() {
	v.mu.Lock()
	v.killed = true
	if v.cmd != nil {
		_ = v.cmd.Process.Kill()
	}
	v.mu.Unlock()
	<-v.done
}

// Close cuts the power and removes the scratch files. A Disk that was named in
// the options stays.
func (v *VM) Close() {
	v.Kill()
	os.RemoveAll(v.dir)
}

// DiskPath returns the working copy of the disk.
func (v *VM) DiskPath() string { return v.disk }
