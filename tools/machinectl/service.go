package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"machined/api/client"
	"machined/api/machinepb"
)

func newService(f *nodeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "List, start, stop and restart the node's services",
	}
	cmd.AddCommand(newServiceList(f), newServiceShow(f),
		newServiceControl(f, "start", "Start a service, and wait until it is healthy", (*client.Client).StartService),
		newServiceControl(f, "stop", "Stop a service, those that depend on it first, and wait until it has ended", (*client.Client).StopService),
		newServiceControl(f, "restart", "Stop a service and start it again, and wait until it is healthy", (*client.Client).RestartService))
	return cmd
}

func newServiceList(f *nodeFlags) *cobra.Command {
	out := formatTable
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the services in the order of their start",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := services(f, cmd)
			if err != nil {
				return err
			}
			if out == formatTable || out == formatText {
				return writeTable(cmd.OutOrStdout(), serviceRows(all))
			}
			list := []object{}
			for _, s := range all {
				list = append(list, serviceObject(s))
			}
			return writeTree(cmd.OutOrStdout(), out, list)
		},
	}
	out.register(cmd)
	return cmd
}

func services(f *nodeFlags, cmd *cobra.Command) ([]*machinepb.ServiceInfo, error) {
	c, err := f.dial(cmd)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Services(cmd.Context())
}

func serviceRows(all []*machinepb.ServiceInfo) [][]string {
	rows := [][]string{{"SERVICE", "STATE", "HEALTHY", "RESTARTS", "MEMORY", "MESSAGE"}}
	for _, s := range all {
		rows = append(rows, []string{
			cell(s.GetId()), cell(s.GetState()), strconv.FormatBool(s.GetHealthy()), strconv.FormatUint(s.GetRestarts(), 10),
			memoryText(s.GetMemoryBytes()), cell(s.GetMessage()),
		})
	}
	return rows
}

// memoryText is a size as people read it; "-" where the kernel does not count.
func memoryText(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

func serviceObject(s *machinepb.ServiceInfo) object {
	events := []object{}
	for _, e := range s.GetEvents() {
		events = append(events, object{{"time", logTime(e.GetTimeUnixNanos())}, {"state", e.GetState()}, {"reason", e.GetReason()}})
	}
	output := []object{}
	for _, line := range s.GetLastOutput() {
		output = append(output, object{{"line", line}})
	}
	return object{
		{"id", s.GetId()}, {"state", s.GetState()}, {"healthy", strconv.FormatBool(s.GetHealthy())}, {"message", s.GetMessage()},
		{"pid", strconv.FormatInt(s.GetPid(), 10)}, {"restarts", strconv.FormatUint(s.GetRestarts(), 10)}, {"last_exit", s.GetLastExit()},
		{"oom_kills", strconv.FormatUint(s.GetOomKills(), 10)}, {"critical", strconv.FormatBool(s.GetCritical())},
		{"memory_bytes", strconv.FormatUint(s.GetMemoryBytes(), 10)}, {"events", events}, {"last_output", output},
	}
}

func newServiceShow(f *nodeFlags) *cobra.Command {
	out := formatText
	cmd := &cobra.Command{
		Use:   "show SERVICE",
		Short: "Print all that is known of a service, its last changes and last lines included",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := services(f, cmd)
			if err != nil {
				return err
			}
			for _, s := range all {
				if s.GetId() != args[0] {
					continue
				}
				if out == formatJSON || out == formatYAML {
					return writeTree(cmd.OutOrStdout(), out, serviceObject(s))
				}
				return writeService(cmd.OutOrStdout(), s)
			}
			return fmt.Errorf("show service %s: the node has no such one; `machinectl service list` prints them", word(args[0]))
		},
	}
	out.register(cmd)
	return cmd
}

func writeService(w io.Writer, s *machinepb.ServiceInfo) error {
	rows := [][]string{
		{"service", cell(s.GetId())}, {"state", cell(s.GetState())}, {"healthy", strconv.FormatBool(s.GetHealthy())},
		{"message", cell(s.GetMessage())}, {"pid", strconv.FormatInt(s.GetPid(), 10)}, {"restarts", strconv.FormatUint(s.GetRestarts(), 10)},
		{"last exit", cell(s.GetLastExit())}, {"OOM kills", strconv.FormatUint(s.GetOomKills(), 10)},
		{"critical", strconv.FormatBool(s.GetCritical())}, {"memory", memoryText(s.GetMemoryBytes())},
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	rows = [][]string{{"", "", ""}, {"TIME", "STATE", "REASON"}}
	for _, e := range s.GetEvents() {
		rows = append(rows, []string{logTime(e.GetTimeUnixNanos()), cell(e.GetState()), cell(e.GetReason())})
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	for i, line := range s.GetLastOutput() {
		if i == 0 {
			fmt.Fprintln(w, "\nlast output:")
		}
		if _, err := fmt.Fprintln(w, "  "+cell(line)); err != nil {
			return err
		}
	}
	return nil
}

type serviceControl func(c *client.Client, ctx context.Context, id string, wait time.Duration) (*machinepb.ServiceInfo, error)

func newServiceControl(f *nodeFlags, name, short string, control serviceControl) *cobra.Command {
	wait := time.Minute
	cmd := &cobra.Command{
		Use:   name + " SERVICE",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait <= 0 {
				return usagef("--wait is %s; give more than 0", wait)
			}
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			s, err := control(c, cmd.Context(), args[0], wait)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is %s: %s\n", cell(s.GetId()), cell(s.GetState()), cell(s.GetMessage()))
			return err
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", wait, "how long to wait for it")
	return cmd
}

func newRuntime(f *nodeFlags) *cobra.Command {
	cmd := &cobra.Command{Use: "runtime", Short: "Manage the node's container runtime"}
	yes := false
	reset := &cobra.Command{
		Use:   "reset",
		Short: "Move aside all that the container runtime has kept, and start it anew",
		Long: "Move aside all that the container runtime has kept, images and containers included,\n" +
			"and start it anew: the way out when its database is damaged. Images come again from\n" +
			"the card or their registry; data that pods keep on EPHEMERAL stays.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return usagef("runtime reset ends all pods and removes their images; add --yes if that is what you want")
			}
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.ResetRuntime(cmd.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "runtime reset requested")
			return err
		},
	}
	reset.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.AddCommand(reset)
	return cmd
}
