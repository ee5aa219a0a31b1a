// Command containerd is containerd with the few plugins that CRI on a small
// board needs. It takes the configuration file of the original.
//
//	containerd --config FILE           serve
//	containerd check --config FILE     say what is wrong with a configuration
//	containerd verify ROOT             say which of its databases are damaged
//	containerd import PATH...          import images into CRI's namespace
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status: 0, 1 for a failure and 2 for wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := serveCommand
	if len(args) > 0 {
		switch args[0] {
		case "check":
			command, args = checkCommand, args[1:]
		case "verify":
			command, args = verifyCommand, args[1:]
		case "import":
			command, args = importCommand, args[1:]
		}
	}
	err := command(ctx, args, stdout, stderr)
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "containerd:", err)
		return 2
	}
	fmt.Fprintln(stderr, "containerd:", err)
	return 1
}

// usageError says that the arguments make no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// configFlag parses the arguments of a command that takes a configuration.
func configFlag(name string, args []string, stderr io.Writer) (string, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", "", "containerd's configuration file")
	if err := flags.Parse(args); err != nil {
		return "", &usageError{err}
	}
	if *file == "" || flags.NArg() > 0 {
		return "", &usageError{fmt.Errorf("%s takes --config FILE and no other arguments", name)}
	}
	return *file, nil
}
