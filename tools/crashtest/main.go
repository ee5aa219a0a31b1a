// Command crashtest cuts the power at every write of an upgrade: real
// bootloaders write by a real kernel's FAT, in QEMU, to a disk that records each
// write and each flush. Of every prefix of the record, and of those with some of
// the writes that were not flushed lost or torn, the rules of the firmware have
// to find a whole system.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options say how much to try.
type options struct {
	only           string // scenario; empty for all
	subsets        int    // random ones at each position
	seed           uint64
	fsckShare      int // of 256 images are checked by fsck.fat
	kernelUpgrades int // of each recording
	least          int // cuts of a backend
	keep           string
	workers        int
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("crashtest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	flags.StringVar(&o.only, "scenario", "", "this one alone")
	flags.IntVar(&o.subsets, "subsets", 12, "random subsets of the unflushed writes at each position")
	flags.Uint64Var(&o.seed, "seed", 1, "of those subsets")
	flags.IntVar(&o.fsckShare, "fsck", 256, "how many of 256 images fsck.fat checks")
	flags.IntVar(&o.kernelUpgrades, "upgrades", 4, "images of a scenario that are upgraded over the kernel's file system")
	flags.StringVar(&o.keep, "keep", "build/crashtest", "directory for the images of what fails")
	flags.IntVar(&o.workers, "workers", runtime.NumCPU(), "how many recordings are judged at a time")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.only == "" {
		o.least = enoughPoints
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := cutEverywhere(ctx, o, stderr)
	if err == nil {
		err = r.print(stdout, o)
	}
	if err != nil {
		fmt.Fprintln(stderr, "crashtest:", err)
		return 1
	}
	return 0
}
