package main

import "strings"

// bootArgs are the kernel arguments that machined understands.
type bootArgs struct {
	Slot     string // machined.slot=A, written into each slot's command line
	Image    string // machined.image=SHA256 of the slot's system image, likewise
	Board    string // machined.board=NAME overrides detection
	Watchdog bool   // machined.watchdog=off leaves the hardware alone
	Netboot  string // machined.netboot=https://IP:PORT of the server that the node was booted by
	Token    string // machined.token=HEX, by which that server knows the node again
}

// parseBootArgs reads /proc/cmdline. The last of several wins, as with the
// kernel's own arguments.
func parseBootArgs(cmdline string) bootArgs {
	args := bootArgs{Watchdog: true}
	for word := range strings.FieldsSeq(cmdline) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "machined.slot":
			if value == "A" || value == "B" {
				args.Slot = value
			}
		case "machined.image":
			args.Image = value
		case "machined.board":
			args.Board = value
		case "machined.netboot":
			args.Netboot = value
		case "machined.token":
			args.Token = value
		case "machined.watchdog":
			args.Watchdog = value != "off"
		}
	}
	return args
}
