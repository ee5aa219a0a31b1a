// Command quickstart is `make run`: it builds an image with a fresh PKI, boots
// it in QEMU, shows that its API answers, and says how to go on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"machined/board"
	"machined/tools/lab"
	"machined/tools/progress"
	"machined/tools/qemu"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// bootWait is generous: emulation on a busy machine is slow.
const bootWait = 5 * time.Minute

type options struct {
	board, config, parts, dir, machinectl string
}

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.board, "board", "x86_64-uefi", "board: "+board.Names())
	flags.StringVar(&o.config, "config", "", "machine config")
	flags.StringVar(&o.parts, "parts", "build/parts", "directory that `make parts` filled")
	flags.StringVar(&o.dir, "dir", "build/run", "directory for the image and its PKI, made anew")
	flags.StringVar(&o.machinectl, "machinectl", "build/machinectl", "machinectl program")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := demonstrate(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
		return 1
	}
	return 0
}

func demonstrate(ctx context.Context, o options, stdout, stderr io.Writer) error {
	node, err := build(o, stderr)
	if err != nil {
		return err
	}
	interactive := progress.IsTerminal(stdout)
	consolePath := filepath.Join(o.dir, "console.log")
	console, err := os.Create(consolePath)
	if err != nil {
		return err
	}
	defer console.Close()
	show := &gate{to: stdout}
	vm, err := node.Start(io.MultiWriter(console, show), nil)
	if err != nil {
		return err
	}
	defer vm.Close()
	if err := waitAPI(ctx, vm, node, stderr); err != nil {
		return fmt.Errorf("%w\nthe console is in %s", err, consolePath)
	}
	for _, command := range [][]string{{"version"}, {"get", "ServiceStatus"}, {"get", "LinkStatus"}} {
		if err := machinectl(ctx, o, vm, node, stdout, stderr, command...); err != nil {
			return err
		}
	}
	tellHowToGoOn(stdout, o, vm, node)
	if interactive {
		fmt.Fprintln(stdout, "The node's console follows; Ctrl-C ends it.")
		show.open()
		if err := vm.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	fmt.Fprintln(stderr, "quickstart: no terminal: powering the node off through its API")
	if err := machinectl(ctx, o, vm, node, stdout, stderr, "shutdown"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bootWait)
	defer cancel()
	return vm.Wait(ctx)
}

func build(o options, stderr io.Writer) (*lab.Node, error) {
	b, ok := board.ByName(o.board)
	if !ok {
		return nil, fmt.Errorf("unknown board %q; known are %s", o.board, board.Names())
	}
	config := []byte("machine:\n  hostname: " + lab.Hostname + "\n")
	if o.config != "" {
		var err error
		if config, err = os.ReadFile(o.config); err != nil {
			return nil, err
		}
	}
	if err := os.RemoveAll(o.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "quickstart: building an image for %s with a fresh PKI\n", b.Name)
	return lab.Build(lab.Options{Board: b, Parts: o.parts, Dir: o.dir, Config: config, Progress: progress.Bytes(stderr, "image")})
}

// waitAPI waits with a spinner that counts seconds, or a line where nobody
// watches.
func waitAPI(ctx context.Context, vm *qemu.VM, node *lab.Node, stderr io.Writer) error {
	fmt.Fprintf(stderr, "quickstart: booting in QEMU, 512 MiB; the API comes up on %s\n", lab.Endpoint(vm))
	ctx, cancel := context.WithTimeout(ctx, bootWait)
	defer cancel()
	stop := progress.Spin(stderr, "waiting for the API")
	defer stop()
	started := time.Now()
	_, err := lab.WaitAPI(ctx, vm, node.Bundle, "")
	if err == nil {
		fmt.Fprintf(stderr, "quickstart: the API answered after %s\n", time.Since(started).Round(100*time.Millisecond))
	}
	return err
}

// machinectl runs the real program, as a user would.
func machinectl(ctx context.Context, o options, vm *qemu.VM, node *lab.Node, stdout, stderr io.Writer, command ...string) error {
	args := append([]string{"--bundle", node.Bundle, "--endpoint", lab.Endpoint(vm)}, command...)
	fmt.Fprintf(stdout, "\n$ machinectl %s\n", strings.Join(command, " "))
	cmd := exec.CommandContext(ctx, o.machinectl, args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run machinectl %s: %w", strings.Join(command, " "), err)
	}
	return nil
}

func tellHowToGoOn(w io.Writer, o options, vm *qemu.VM, node *lab.Node) {
	fmt.Fprintf(w, "\nTo go on, from another terminal:\n")
	fmt.Fprintf(w, "  %s config merge %s --name lab --endpoint %s\n", o.machinectl, node.Bundle, lab.Endpoint(vm))
	fmt.Fprintf(w, "  %s get MachineConfig -o yaml\n", o.machinectl)
	fmt.Fprintf(w, "  %s reboot\n", o.machinectl)
	fmt.Fprintf(w, "The image is %s; docs/first-card.md says how to flash one for your board.\n\n", node.Image.Path)
}
