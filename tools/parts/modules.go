//go:build pinned

// This file is never built. It keeps the modules that hold files instead of
// code in go.mod, where go.sum pins them byte for byte: kernels, device trees
// and firmware for the images, and the vulnerability database for the check.
package main

import (
	_ "github.com/gokrazy/firmware"
	_ "github.com/gokrazy/kernel.amd64"
	_ "github.com/gokrazy/kernel.arm64"
	_ "github.com/gokrazy/kernel.rpi"
	_ "golang.org/x/vulndb/cmd/vulnreport/color" // the one package there that needs no other module
)
