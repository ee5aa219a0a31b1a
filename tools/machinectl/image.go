package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"machined/board"
	"machined/images"
	"machined/images/parts"
	"machined/init/config"
	"machined/tools/pkidir"
	"machined/tools/progress"
)

func newImage() *cobra.Command {
	cmd := &cobra.Command{Use: "image", Short: "Build what goes on a card or a disk"}
	cmd.AddCommand(newImageBuild())
	return cmd
}

// imageFlags are the flags of `image build`.
type imageFlags struct {
	board, config, pki, out, parts, imager string
	oci                                    []string
	programs                               map[string]string
	embedCA                                bool
}

func newImageBuild() *cobra.Command {
	var f imageFlags
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build an image, with its manifest and bill of materials beside it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			img, err := buildImage(f, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", img.SHA256, img.Path)
			return nil
		},
	}
	cmd.Flags().StringVar(&f.board, "board", "", "board: "+board.Names())
	cmd.Flags().StringVar(&f.config, "config", "", "machine config of the node (YAML); none for the defaults")
	cmd.Flags().StringVar(&f.pki, "pki", "", "directory of `machinectl pki new`; none for a node that makes its own CA")
	cmd.Flags().StringVar(&f.out, "out", "", "image file to write")
	cmd.Flags().StringVar(&f.parts, "parts", "build/parts", "directory that `make parts` filled")
	cmd.Flags().BoolVar(&f.embedCA, "embed-ca", false, "put the CA's key on the node too")
	cmd.Flags().StringVar(&f.imager, "imager", "", "YAML file with board, out, config, pki, images and programs; flags win over it")
	cmd.Flags().StringToStringVar(&f.programs, "program", nil, "NAME=FILE: a static program that services run as /boot/programs/NAME; may be given more than once")
	cmd.Flags().StringArrayVar(&f.oci, "oci", nil, "OCI image layout or tarball that the node imports on its first boot; may be given more than once")
	return cmd
}

func buildImage(f imageFlags, stderr io.Writer) (images.Image, error) {
	if err := f.readImager(); err != nil {
		return images.Image{}, err
	}
	if err := f.complete(); err != nil {
		return images.Image{}, err
	}
	b, ok := board.ByName(f.board)
	if !ok {
		return images.Image{}, fmt.Errorf("unknown board %q; known are %s", f.board, board.Names())
	}
	store, err := parts.Open(f.parts)
	if err != nil {
		return images.Image{}, err
	}
	o := images.Options{Board: b, Store: store, Programs: f.programs}
	if o.Containers, err = f.containers(); err != nil {
		return images.Image{}, err
	}
	hostname := "machined"
	if f.config != "" {
		if o.Config, err = os.ReadFile(f.config); err != nil {
			return images.Image{}, err
		}
		parsed, warnings, err := config.Parse(f.config, o.Config)
		if err != nil {
			return images.Image{}, fmt.Errorf("the machine config is not valid:\n%w", err)
		}
		for _, w := range warnings {
			fmt.Fprintln(stderr, "warning:", w)
		}
		if parsed.Machine.Hostname != "" {
			hostname = parsed.Machine.Hostname
		}
	}
	if f.pki != "" {
		if o.PKI, err = pkidir.Node(f.pki, hostname, f.embedCA, time.Now()); err != nil {
			return images.Image{}, err
		}
	} else if f.embedCA {
		return images.Image{}, fmt.Errorf("--embed-ca needs --pki")
	}
	o.Progress = progress.Bytes(stderr, "writing "+f.out)
	return images.Build(f.out, o)
}
