package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes: 1 is a failure, 2 a command line that is not understood or needs
// a confirmation.
const (
	exitFailure = 1
	exitUsage   = 2
)

// failure is an error of a command that had begun. What comes before that is
// about the command line, whatever cobra calls it.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// usageError is a command line that a command itself finds wrong.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func exitCode(err error) int {
	var f failure
	var u usageError
	if errors.As(err, &f) && !errors.As(err, &u) {
		return exitFailure
	}
	return exitUsage
}

// tellUsage marks the errors of a command and all below it, so that exitCode can
// tell them apart.
func tellUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
	})
	for _, c := range cmd.Commands() {
		tellUsage(c)
	}
	if !cmd.Runnable() && cmd.HasSubCommands() && cmd.HasParent() {
		cmd.RunE = missingCommand
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := run(cmd, args); err != nil {
				return failure{err}
			}
			return nil
		}
	}
}

// missingCommand runs for a command that only groups others. Cobra shows the
// help for whatever it is given, and calls that a success.
func missingCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usagef("unknown command %q for %q; there are %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
}
