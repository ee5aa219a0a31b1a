package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"machined/board"
	"machined/images"
	"machined/images/netboot"
	"machined/images/parts"
	"machined/init/config"
	"machined/tools/netboot/provision"
	"machined/tools/progress"
)

func newNetboot() *cobra.Command {
	cmd := &cobra.Command{Use: "netboot", Short: "Boot nodes over the network"}
	cmd.AddCommand(newNetbootBuild(), newNetbootServe())
	return cmd
}

// netbootFlags are the flags of `netboot build`.
type netbootFlags struct {
	board, config, out, parts string
	bake                      bool
}

func newNetbootBuild() *cobra.Command {
	var f netbootFlags
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build what a board is booted by over the network, and installed from",
		Long: "Build what a board is booted by over the network, and installed from, below DIR/BOARD.\n\n" +
			"The first build makes a CA in DIR/pki, a client bundle of it in DIR/bundle for\n" +
			"`machinectl --bundle DIR/bundle`, and DIR/configs/default.yaml from --config. What is\n" +
			"there already is used as it is. Another board is built into the same DIR beside it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			built, err := buildNetboot(f, cmd.ErrOrStderr(), time.Now())
			if err != nil {
				return err
			}
			for _, file := range netbootFiles(built) {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", file.SHA256, filepath.Join(f.out, filepath.FromSlash(file.Path)))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.board, "board", "", "board: "+board.Names())
	cmd.Flags().StringVar(&f.config, "config", "", "machine config (YAML, a template of the facts of a board) of nodes that have none of their own; becomes DIR/configs/default.yaml if that is not there")
	cmd.Flags().StringVar(&f.out, "out", "", "the netboot directory DIR")
	cmd.Flags().StringVar(&f.parts, "parts", "build/parts", "directory that `make parts` filled")
	cmd.Flags().BoolVar(&f.bake, "bake-config", false, "put the config into the initramfs too, for nodes whose server gives them none; whoever reaches TFTP can read it")
	for _, name := range []string{"board", "out"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return cmd
}

// netbootFiles are what was built, the file that UEFI starts first.
func netbootFiles(b netboot.Board) []netboot.File {
	list := []netboot.File{b.Kernel, b.Initramfs, b.Image.File}
	if b.UKI != nil {
		list = append([]netboot.File{b.UKI.File}, list...)
	}
	return list
}

// buildNetboot looks at all that was given before it writes anything.
func buildNetboot(f netbootFlags, stderr io.Writer, now time.Time) (netboot.Board, error) {
	b, ok := board.ByName(f.board)
	if !ok {
		return netboot.Board{}, fmt.Errorf("unknown board %q; known are %s", f.board, board.Names())
	}
	store, err := parts.Open(f.parts)
	if err != nil {
		return netboot.Board{}, err
	}
	text, err := f.readConfig(stderr)
	if err != nil {
		return netboot.Board{}, err
	}
	ca, err := netbootPKI(f.out, stderr, now)
	if err != nil {
		return netboot.Board{}, err
	}
	if err := f.keepDefault(text, stderr); err != nil {
		return netboot.Board{}, err
	}
	o := images.NetbootOptions{Board: b, Store: store, CA: ca, Progress: fileProgress(stderr)}
	if f.bake {
		o.Config = text
	}
	return images.BuildNetboot(f.out, o)
}

func (f netbootFlags) defaultPath() string {
	return filepath.Join(f.out, filepath.FromSlash(netboot.DefaultConfig))
}

// readConfig returns the config, which is the directory's own without --config.
func (f netbootFlags) readConfig(stderr io.Writer) ([]byte, error) {
	path := f.config
	if path == "" {
		path = f.defaultPath()
	}
	text, err := os.ReadFile(path)
	if f.config == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("there is no %s yet; name a machine config with --config", path)
	}
	if err != nil {
		return nil, err
	}
	filled := text // a baked config is for all boards as it is
	if !f.bake {
		if filled, err = provision.Example(path, text); err != nil {
			return nil, fmt.Errorf("the machine config is not valid:\n%w", err)
		}
	}
	_, warnings, err := config.Parse(path, filled)
	if err != nil {
		return nil, fmt.Errorf("the machine config is not valid:\n%w", err)
	}
	for _, w := range warnings {
		fmt.Fprintln(stderr, "warning:", w)
	}
	return text, nil
}

// keepDefault makes the default config of the directory where there is none.
func (f netbootFlags) keepDefault(text []byte, stderr io.Writer) error {
	path := f.defaultPath()
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return images.ReplaceFile(path, text, 0o600) // it may hold secrets
	case err != nil:
		return err
	case f.config != "" && string(have) != string(text):
		fmt.Fprintf(stderr, "%s is there already and stays as it is; edit it, or remove it for a copy of %s\n", path, f.config)
	}
	return nil
}

// fileProgress draws a bar for each file.
func fileProgress(stderr io.Writer) func(file string, done, total int64) {
	if !progress.IsTerminal(stderr) {
		return nil
	}
	var of string
	var bar func(done, total int64)
	return func(file string, done, total int64) {
		if file != of {
			of, bar = file, progress.Bytes(stderr, "writing "+file)
		}
		bar(done, total)
	}
}
