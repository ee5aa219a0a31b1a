//go:build tinygo

// Command wasm is the core's conformance suite as a WebAssembly module. It
// imports nothing: the host asks how many cases there are, what each is called,
// and runs them one by one.
package main

import (
	"strings"
	"unsafe"

	"machined/reconcile/conformance"
)

func main() {}

// failures collects what a case says.
type failures []string

func (f *failures) Fail(message string) { *f = append(*f, message) }

// count returns the number of cases.
//
//go:wasmexport count
func count() uint32 { return uint32(len(conformance.Cases())) }

// name returns the name of a case.
//
//go:wasmexport name
func name(i uint32) uint64 { return text(conformance.Cases()[i].Name) }

// run runs a case and returns its failures, a line each; empty when it passed.
//
//go:wasmexport run
func run(i uint32) uint64 {
	var f failures
	conformance.Cases()[i].Run(&f)
	for n, message := range f {
		f[n] = strings.ReplaceAll(message, "\n", " ")
	}
	return text(strings.Join(f, "\n"))
}

// text tells the host where a string lies: its address in the upper half, its
// length in bytes in the lower. It holds until the next call.
func text(s string) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.StringData(s))))<<32 | uint64(len(s))
}
