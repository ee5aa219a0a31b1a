// Command sim runs whole nodes in simulated time, each with the hardware, the
// config and the troubles of its seed, and checks what machined promises.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	seeds := flags.Int("seeds", 1000, "how many nodes to simulate")
	from := flags.Uint64("from", 1, "the first seed")
	seed := flags.Uint64("seed", 0, "simulate this one alone")
	verbose := flags.Bool("v", false, "print what happens, with -seed")
	show := flags.Int("show", 5, "how many failures to print")
	workers := flags.Int("workers", runtime.NumCPU(), "how many at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	debug.SetGCPercent(400) // there is little to keep
	if *seed != 0 {
		var out io.Writer
		if *verbose {
			out = stdout
		}
		return report(stdout, simulate(*seed, nothing, out))
	}
	began := time.Now()
	sum, failures := simulateAll(*from, *seeds, *workers, bar(stderr, *seeds))
	for i, f := range failures {
		if i == *show {
			fmt.Fprintf(stdout, "and %d more\n", len(failures)-i)
			break
		}
		_ = report(stdout, f)
	}
	took := time.Since(began)
	fmt.Fprintf(stdout, "%d nodes, %.0f simulated hours, %d passes in %.1f s (%.0f nodes a minute)\n%v\n",
		*seeds, sum.simulated.Hours(), sum.passes, took.Seconds(), float64(*seeds)/took.Minutes(), &sum)
	if len(failures) > 0 {
		return fmt.Errorf("%d of %d nodes broke a promise", len(failures), *seeds)
	}
	return nil
}

// report prints how one seed has gone.
func report(w io.Writer, o outcome) error {
	if o.violation == nil {
		fmt.Fprintf(w, "seed %d: all promises kept, trace %016x\n", o.seed, o.hash)
		return nil
	}
	fmt.Fprintf(w, "seed %d: %v\n", o.seed, o.violation)
	for _, line := range o.tail {
		fmt.Fprintln(w, "    "+line)
	}
	fmt.Fprintf(w, "  replay: go run ./tools/sim -seed %d -v\n", o.seed)
	return fmt.Errorf("seed %d: %w", o.seed, o.violation)
}
