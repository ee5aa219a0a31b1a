package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"machined/reconcile/conformance"
)

// caseLimit ends a case that does not end by itself.
const caseLimit = 2 * time.Minute

// result is what a case said.
type result struct {
	name     string
	failures []string
}

// runSuite runs every case of the suite in the WebAssembly module, each in an
// instance of its own: a case that traps leaves the memory as it was.
func runSuite(ctx context.Context, module []byte) ([]result, error) {
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(true))
	defer runtime.Close(ctx)
	compiled, err := runtime.CompileModule(ctx, module)
	if err != nil {
		return nil, fmt.Errorf("compile the WebAssembly module: %w", err)
	}
	for _, f := range compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		return nil, fmt.Errorf("the module imports %s.%s; the core needs nothing of its host, so find who calls it", from, name)
	}
	h := host{runtime, compiled}
	names, err := h.names(ctx)
	if err != nil {
		return nil, err
	}
	var results []result
	for i, name := range names {
		r := result{name: name}
		if said, err := h.run(ctx, uint64(i)); err != nil {
			r.failures = []string{err.Error()}
		} else if said != "" {
			r.failures = strings.Split(said, "\n")
		}
		results = append(results, r)
	}
	return results, ctx.Err()
}

type host struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

func (h host) names(ctx context.Context) ([]string, error) {
	m, err := h.start(ctx)
	if err != nil {
		return nil, err
	}
	defer m.Close(ctx)
	count, err := call(ctx, m, "count")
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range count {
		name, err := text(ctx, m, "name", i)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func (h host) run(ctx context.Context, i uint64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, caseLimit)
	defer cancel()
	m, err := h.start(ctx)
	if err != nil {
		return "", err
	}
	defer m.Close(ctx)
	return text(ctx, m, "run", i)
}

func (h host) start(ctx context.Context) (api.Module, error) {
	m, err := h.runtime.InstantiateModule(ctx, h.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
	if err != nil {
		return nil, fmt.Errorf("start the WebAssembly module: %w", err)
	}
	return m, nil
}

// call calls an exported function that has one result.
func call(ctx context.Context, m api.Module, name string, args ...uint64) (uint64, error) {
	f := m.ExportedFunction(name)
	if f == nil {
		return 0, fmt.Errorf("the WebAssembly module does not export %s", name)
	}
	results, err := f.Call(ctx, args...)
	if err != nil {
		return 0, fmt.Errorf("call %s: %w", name, err)
	}
	if len(results) != 1 {
		return 0, fmt.Errorf("%s has %d results; want 1", name, len(results))
	}
	return results[0], nil
}

// text calls a function that returns where a string lies.
func text(ctx context.Context, m api.Module, name string, i uint64) (string, error) {
	at, err := call(ctx, m, name, i)
	if err != nil {
		return "", err
	}
	if uint32(at) == 0 {
		return "", nil
	}
	bytes, ok := m.Memory().Read(uint32(at>>32), uint32(at))
	if !ok {
		return "", fmt.Errorf("%s(%d) points outside of the module's memory", name, i)
	}
	return string(bytes), nil
}

// judge prints each result. It is an error when one failed, or when the cases
// are not those that run natively.
func judge(w io.Writer, results []result, native []conformance.Case) error {
	failed := 0
	for _, r := range results {
		if len(r.failures) == 0 {
			fmt.Fprintln(w, "   ok  ", r.name)
			continue
		}
		failed++
		fmt.Fprintln(w, "   FAIL", r.name)
		for _, f := range r.failures {
			fmt.Fprintln(w, "       ", strings.ReplaceAll(f, "\n", "\n        "))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed in WebAssembly", failed, len(results))
	}
	if len(results) != len(native) {
		return fmt.Errorf("%d cases ran in WebAssembly and %d are there; look at tools/tinygo/wasm", len(results), len(native))
	}
	for i, r := range results {
		if r.name != native[i].Name {
			return fmt.Errorf("case %d is %q in WebAssembly and %q natively", i, r.name, native[i].Name)
		}
	}
	fmt.Fprintf(w, "%d cases passed\n", len(results))
	return nil
}
