package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"machined/api/machinepb"
)

func newLogs(f *nodeFlags) *cobra.Command {
	follow, tail, out := false, int32(0), formatText
	cmd := &cobra.Command{
		Use:   "logs SERVICE",
		Short: "Print what a service has written",
		Long: "Print what a service has written, as far as the node has kept it: time, stream and\n" +
			"line. The log of a pod's container is that of pod/POD/CONTAINER, and that of the\n" +
			"node itself is machined. A line `lost N` says that N lines were overwritten before\n" +
			"they could be read.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out != formatText && out != formatJSON {
				return usagef("logs prints text or json")
			}
			if tail < 0 {
				return usagef("--tail is %d; give 0 or more", tail)
			}
			lines := tail
			if lines == 0 && cmd.Flags().Changed("tail") {
				lines = -1
			}
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			w := cmd.OutOrStdout()
			err = c.Logs(cmd.Context(), args[0], follow, lines,
				func(r *machinepb.LogRecord) error { return writeRecord(w, out, r) },
				func(n uint64) error { return writeLost(w, out, n) })
			if errors.Is(err, context.Canceled) {
				return nil // interrupted, as is the way to end it
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what it writes from now on")
	cmd.Flags().Int32Var(&tail, "tail", 0, "print only so many of the last lines first")
	out.register(cmd)
	return cmd
}

func logTime(unixNanos int64) string {
	return time.Unix(0, unixNanos).UTC().Format("2006-01-02T15:04:05.000Z")
}

// plainText keeps what a terminal would act on from it. A log is whatever a
// program writes.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

func writeRecord(w io.Writer, out format, r *machinepb.LogRecord) error {
	if out == formatJSON {
		line, err := plainJSON(object{{"time", logTime(r.GetTimeUnixNanos())}, {"stream", r.GetStream()}, {"text", string(r.GetText())}})
		if err == nil {
			_, err = w.Write(line)
		}
		return err
	}
	_, err := fmt.Fprintf(w, "%s %s %s\n", logTime(r.GetTimeUnixNanos()), r.GetStream(), plainText(string(r.GetText())))
	return err
}

func writeLost(w io.Writer, out format, n uint64) error {
	if out == formatJSON {
		_, err := fmt.Fprintf(w, "{\"lost\":\"%d\"}\n", n)
		return err
	}
	_, err := fmt.Fprintf(w, "lost %d\n", n)
	return err
}
