// Command footprint measures what machined costs on the model of the Raspberry
// Pi 3A+: it boots a node and, in the same run, the same kernel with an init
// that does nothing, and prints the figures one a line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/u-root/u-root/pkg/cpio"

	"machined/board"
	"machined/tools/lab"
	"machined/tools/qemu"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const (
	boardName = "rpi-3a-plus"
	// patience is a time-out: emulation on a busy machine is slow.
	patience = 5 * time.Minute
	// settle lets a node come to rest before its memory is looked at.
	settle = 20 * time.Second
)

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("footprint", flag.ContinueOnError)
	flags.SetOutput(stderr)
	store := flags.String("parts", "build/parts", "directory that `make parts` filled")
	rounds := flags.Int("rounds", 3, "boots of each kind; the fastest counts, since noise only adds")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	f, err := measure(*store, *rounds, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "footprint:", err)
		return 1
	}
	f.print(stdout)
	return 0
}

// figures are the results; memory in units of 1024 bytes.
type figures struct {
	memTotal, memAvailable, bareAvailable int64
	rssAnon, rssFile                      int64
	bareInit, apiReady                    time.Duration // since QEMU was started
	slotBytes                             int64
	// With a container runtime that is ready, and with one pod.
	runtimeAvailable, podAvailable, containerdAnon int64
	runtimeReady                                   time.Duration // since QEMU was started
	// Of machined at rest, with the runtime.
	wakeUps    float64 // a second
	cpuPercent float64 // of one core
}

func (f figures) print(w io.Writer) {
	fmt.Fprintf(w, "mem_total_kb=%d\nmem_available_kb=%d\nbare_available_kb=%d\n", f.memTotal, f.memAvailable, f.bareAvailable)
	fmt.Fprintf(w, "machined_rss_anon_kb=%d\nmachined_rss_file_kb=%d\n", f.rssAnon, f.rssFile)
	fmt.Fprintf(w, "bare_init_s=%.2f\napi_ready_s=%.2f\nslot_bytes=%d\n", f.bareInit.Seconds(), f.apiReady.Seconds(), f.slotBytes)
	fmt.Fprintf(w, "mem_available_runtime_kb=%d\nmem_available_pod_kb=%d\ncontainerd_rss_anon_kb=%d\n", f.runtimeAvailable, f.podAvailable, f.containerdAnon)
	fmt.Fprintf(w, "runtime_ready_s=%.2f\nmachined_wakeups_per_s=%.2f\nmachined_cpu_percent=%.2f\n", f.runtimeReady.Seconds(), f.wakeUps, f.cpuPercent)
}

// nodes are what is booted: without a container runtime, with one, and with a
// pod on it.
type nodes struct {
	plain, runtime, pod *lab.Node
}

func buildNodes(store, dir string) (n nodes, err error) {
	b, ok := board.ByName(boardName)
	if !ok {
		return n, fmt.Errorf("the table of boards lacks %s", boardName)
	}
	_, image, err := lab.Guest(dir, b)
	if err != nil {
		return n, err
	}
	const head = "machine:\n  hostname: " + lab.Hostname + "\n"
	for _, o := range []struct {
		name, config string
		containers   []string
		to           **lab.Node
	}{
		{"plain", head + "  runtime: {disabled: true}\n", nil, &n.plain},
		// A node whose time servers cannot be reached is not at rest: it asks again.
		{"runtime", head + "  time: {disabled: true}\n", nil, &n.runtime},
		{"pod", head + "  pods: [{name: guest, image: " + lab.GuestImage + ", args: [wait]}]\n", []string{image}, &n.pod},
	} {
		sub := filepath.Join(dir, o.name)
		if err := os.Mkdir(sub, 0o755); err != nil {
			return n, err
		}
		if *o.to, err = lab.Build(lab.Options{Board: b, Parts: store, Dir: sub, Config: []byte(o.config), Containers: o.containers}); err != nil {
			return n, err
		}
	}
	return n, nil
}

func measure(store string, rounds int, stderr io.Writer) (figures, error) {
	dir, err := lab.Scratch()
	if err != nil {
		return figures{}, err
	}
	defer os.RemoveAll(dir)
	n, err := buildNodes(store, dir)
	if err != nil {
		return figures{}, err
	}
	bare, err := buildBareInit(dir)
	if err != nil {
		return figures{}, err
	}
	var f figures
	for _, file := range n.plain.Image.Manifest.Slot.Files {
		f.slotBytes += file.Size
	}
	for i := range rounds {
		fmt.Fprintf(stderr, "footprint: round %d of %d\n", i+1, rounds)
		if err := f.bootBare(n.plain, bare); err != nil {
			return figures{}, fmt.Errorf("boot the init that does nothing: %w", err)
		}
		if err := f.bootNode(n.plain, i == rounds-1); err != nil {
			return figures{}, fmt.Errorf("boot the node: %w", err)
		}
	}
	fmt.Fprintln(stderr, "footprint: the container runtime")
	if err := f.bootRuntime(n.runtime); err != nil {
		return figures{}, fmt.Errorf("boot a node with a container runtime: %w", err)
	}
	fmt.Fprintln(stderr, "footprint: a pod")
	if err := f.bootPod(n.pod); err != nil {
		return figures{}, fmt.Errorf("boot a node with a pod: %w", err)
	}
	return f, nil
}

// buildBareInit packs the init that does nothing into an initramfs.
func buildBareInit(dir string) (string, error) {
	program := filepath.Join(dir, "bareinit")
	if err := lab.Compile(program, "arm64", "machined/tools/footprint/bareinit"); err != nil {
		return "", fmt.Errorf("build the init that does nothing: %w", err)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	path := program + ".cpio"
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	records := cpio.Newc.Writer(f)
	err = cpio.WriteRecords(records, []cpio.Record{
		cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1), cpio.StaticFile("init", string(b), 0o755),
	})
	return path, errors.Join(err, cpio.WriteTrailer(records), f.Close())
}

// bootBare notes when the init that does nothing starts, and what it leaves
// free once it has been at rest.
func (f *figures) bootBare(node *lab.Node, initramfs string) error {
	w := newLines()
	vm, err := start(node, w, func(o *qemu.Options) { o.Initramfs = initramfs })
	if err != nil {
		return err
	}
	defer vm.Close()
	if err := w.wait("bareinit: started", 1, patience); err != nil {
		return err
	}
	keepMin(&f.bareInit, time.Since(vm.Started()))
	if f.bareAvailable != 0 {
		return nil
	}
	// The memory is printed every five seconds.
	if err := w.wait("bareinit: end", int(settle/(5*time.Second)), patience); err != nil {
		return err
	}
	f.bareAvailable, err = w.lastNumber("MemAvailable:")
	return err
}

// bootNode notes when the API answers and, in the last round, the memory of
// the node at rest.
func (f *figures) bootNode(node *lab.Node, memory bool) error {
	vm, err := start(node, nil, nil)
	if err != nil {
		return err
	}
	defer vm.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := lab.WaitAPI(ctx, vm, node.Bundle, ""); err != nil {
		return err
	}
	keepMin(&f.apiReady, time.Since(vm.Started()))
	if !memory {
		return nil
	}
	time.Sleep(settle)
	return f.readMemory(ctx, vm, node.Bundle)
}

func (f *figures) readMemory(ctx context.Context, vm *qemu.VM, bundle string) error {
	c, err := lab.Dial(vm, bundle)
	if err != nil {
		return err
	}
	defer c.Close()
	memory, err := one(ctx, c, "MemoryStatus", "memory")
	if err != nil {
		return err
	}
	for field, figure := range map[string]*int64{
		"mem_total_kb": &f.memTotal, "mem_available_kb": &f.memAvailable, "rss_anon_kb": &f.rssAnon, "rss_file_kb": &f.rssFile,
	} {
		if *figure, err = strconv.ParseInt(memory[field], 10, 64); err != nil {
			return fmt.Errorf("read %s of MemoryStatus: %w", field, err)
		}
	}
	return nil
}

// start boots on a disk of its own, so that each boot is a first one.
func start(node *lab.Node, console io.Writer, edit func(*qemu.Options)) (*qemu.VM, error) {
	return node.Start(console, func(o *qemu.Options) {
		o.Disk = ""
		if edit != nil {
			edit(o)
		}
	})
}

func keepMin(best *time.Duration, d time.Duration) {
	if *best == 0 || d < *best {
		*best = d
	}
}
