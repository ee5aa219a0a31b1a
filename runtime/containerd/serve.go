package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/cmd/containerd/server"
	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/log"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"github.com/pelletier/go-toml/v2"
	"google.golang.org/grpc/grpclog"
)

// serveCommand runs containerd until ctx ends.
func serveCommand(ctx context.Context, args []string, _, stderr io.Writer) error {
	file, err := configFlag("containerd", args, stderr)
	if err != nil {
		return err
	}
	// Whoever reads the log may go before containers do.
	signal.Ignore(syscall.SIGPIPE)
	// gRPC's own messages are about connections that come and go.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	c, err := load(ctx, file)
	if err != nil {
		return err
	}
	return serve(ctx, c)
}

func load(ctx context.Context, file string) (*config.Config, error) {
	c := &config.Config{Version: version.ConfigVersion, Plugins: make(map[string]any)}
	registered := registry.Graph(func(*plugin.Registration) bool { return false })
	all := func() iter.Seq[plugin.Registration] { return slices.Values(registered) }
	if err := config.LoadConfigWithPlugins(ctx, file, all, c); err != nil {
		return nil, fmt.Errorf("read the configuration %s: %w", file, err)
	}
	return c, nil
}

func serve(ctx context.Context, c *config.Config) error {
	began := time.Now()
	if c.Debug.Level != "" {
		if err := log.SetLevel(c.Debug.Level); err != nil {
			return fmt.Errorf("set the log's level: %w", err)
		}
	}
	if err := server.CreateTopLevelDirectories(c); err != nil {
		return fmt.Errorf("make containerd's directories: %w", err)
	}
	cleanMounts(ctx, filepath.Join(c.Root, "tmpmounts"))
	started := make(chan error, 1)
	var s *server.Server
	// Opening a database that another containerd holds waits for ever, and
	// must not keep a signal from ending this one.
	go func() {
		var err error
		if s, err = server.New(ctx, c); err == nil {
			err = s.Start(ctx)
		}
		started <- err
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-started:
		if err != nil {
			return fmt.Errorf("start containerd: %w", err)
		}
	}
	s.Wait()
	log.G(ctx).Infof("containerd successfully booted in %fs", time.Since(began).Seconds())
	<-ctx.Done()
	s.Stop()
	return nil
}

// cleanMounts unmounts what a containerd that was killed has left.
func cleanMounts(ctx context.Context, dir string) {
	if err := mount.SetTempMountLocation(dir); err != nil {
		log.G(ctx).WithError(err).Warn("cannot use " + dir)
		return
	}
	warnings, err := mount.CleanupTempMounts(0)
	if err := errors.Join(append(warnings, err)...); err != nil {
		log.G(ctx).WithError(err).Warn("cannot unmount all of " + dir)
	}
}

// checkCommand reads a configuration as serving does, and takes a key that
// nothing reads for an error: containerd only warns of it.
func checkCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	file, err := configFlag("check", args, stderr)
	if err != nil {
		return err
	}
	c, err := load(ctx, file)
	if err != nil {
		return err
	}
	if err := check(c); err != nil {
		return fmt.Errorf("check the configuration %s: %w", file, err)
	}
	fmt.Fprintln(stdout, "ok")
	return nil
}

func check(c *config.Config) error {
	var errs []error
	known := make(map[string]any)
	for _, p := range registry.Graph(func(*plugin.Registration) bool { return false }) {
		known[p.URI()] = p.Config
	}
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		settings, ok := known[name]
		if !ok || settings == nil {
			errs = append(errs, fmt.Errorf("plugin %s: there is none of the name that has settings", name))
			continue
		}
		text, err := toml.Marshal(c.Plugins[name])
		if err != nil {
			return err
		}
		if err := toml.NewDecoder(strings.NewReader(string(text))).DisallowUnknownFields().Decode(settings); err != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", name, describe(err)))
		}
	}
	return errors.Join(append(errs, unknown("disabled_plugins", c.DisabledPlugins, known), unknown("required_plugins", c.RequiredPlugins, known))...)
}

func unknown(list string, names []string, known map[string]any) error {
	for _, n := range names {
		if _, ok := known[n]; !ok {
			return fmt.Errorf("%s: there is no plugin %s", list, n)
		}
	}
	return nil
}

// describe names the keys that nothing reads.
func describe(err error) error {
	var strict *toml.StrictMissingError
	if !errors.As(err, &strict) {
		return err
	}
	var names []string
	for _, e := range strict.Errors {
		names = append(names, strings.Join(e.Key(), "."))
	}
	return fmt.Errorf("nothing reads %s", strings.Join(names, ", "))
}
