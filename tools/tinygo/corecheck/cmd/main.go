// Command corecheck reports what breaks the rules of the core:
//
//	go run ./tools/tinygo/corecheck/cmd ./...
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"machined/tools/tinygo/corecheck"
)

func main() { singlechecker.Main(corecheck.New()) }
