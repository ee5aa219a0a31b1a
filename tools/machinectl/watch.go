package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"machined/api/machinepb"
	"machined/reconcile/resource"
)

func newWatch(f *nodeFlags) *cobra.Command {
	out, namespace := formatText, ""
	cmd := &cobra.Command{
		Use:   "watch KIND",
		Short: "Print the resources of a kind, and each change of them as it happens",
		Long: "Print the resources of a kind, and then each change of them as it happens, a line\n" +
			"each, until interrupted. When the node restarts or the connection breaks, the watch\n" +
			"is made again. A line `lost N` says that N changes went by unseen; all resources\n" +
			"follow it anew. KIND is as for get.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("watch takes a KIND, and not %d arguments", len(args))
			}
			return kindArgument(cmd, args)
		},
		ValidArgsFunction: completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out != formatText && out != formatJSON {
				return usagef("watch prints text or json")
			}
			kind, _ := findKind(args[0])
			if err := checkNamespace(kind, namespace); err != nil {
				return err
			}
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			err = c.Watch(cmd.Context(), kind.String(), namespace, func(e *machinepb.WatchEvent) error {
				return writeEvent(cmd.OutOrStdout(), out, kind, e)
			}, func(err error, pause time.Duration) {
				fmt.Fprintf(cmd.ErrOrStderr(), "machinectl: %v; trying again in %s\n", err, pause)
			})
			if errors.Is(err, context.Canceled) {
				return nil // interrupted, as is the way to end it
			}
			return err
		},
	}
	namespaceFlag(cmd, &namespace)
	out.register(cmd)
	return cmd
}

// writeEvent writes a line: what happened, to what, and what it is now.
func writeEvent(w io.Writer, out format, kind resource.Kind, e *machinepb.WatchEvent) error {
	op := strings.ToLower(e.GetOp().String())
	if out == formatJSON {
		event := object{{"op", op}, {"kind", kind.String()}, {"sequence", strconv.FormatUint(e.GetSequence(), 10)}}
		if e.GetOp() == machinepb.WatchEvent_LOST {
			event = append(event, pair{"lost", strconv.FormatUint(e.GetLost(), 10)})
		}
		if e.GetEntry() != nil {
			event = append(event, entryObject(kind, e.GetEntry())[2:]...)
		}
		line, err := plainJSON(event)
		if err == nil {
			_, err = w.Write(line)
		}
		return err
	}
	var err error
	switch e.GetOp() {
	case machinepb.WatchEvent_LOST:
		_, err = fmt.Fprintf(w, "lost %d\n", e.GetLost())
	case machinepb.WatchEvent_SYNCED: // a person sees that nothing follows
	default:
		line := fmt.Sprintf("%-9s  %s", op, word(e.GetEntry().GetId()))
		for _, f := range e.GetEntry().GetFields() {
			line += " " + word(f.GetKey()) + "=" + word(f.GetValue())
		}
		_, err = fmt.Fprintln(w, line)
	}
	return err
}
