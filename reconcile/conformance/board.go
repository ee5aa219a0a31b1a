package conformance

import (
	"machined/board"
	"machined/rpi"
	"machined/x86"
)

func boardCases() []Case {
	return []Case{
		{"board: a device tree names the board", boardByTree},
		{"board: UEFI wins over the device tree", boardByEFI},
		{"board: every row of the table can be found", boardRows},
	}
}

func bootCases() []Case {
	return []Case{
		{"rpi: one byte of config.txt chooses the slot", piFlip},
		{"rpi: a config.txt that cannot be flipped is refused", piRefused},
		{"x86: an entry's name carries its counter", entryNames},
	}
}

func boardByTree(t T) {
	for _, c := range []struct{ tree, want string }{
		{"raspberrypi,3-model-a-plus\x00brcm,bcm2837\x00", "rpi-3a-plus"},
		{"vendor,carrier\x00raspberrypi,3-model-a-plus\x00", "rpi-3a-plus"},
		{"linux,dummy-virt\x00", "arm64-mbr"},
		{"linux,dummy-virt", ""}, // a string ends in a zero
		{"raspberrypi,3-model-a-plus-2\x00", ""},
		{"", ""},
	} {
		got, ok := board.Detect(board.Facts{Arch: "arm64", Compatible: []byte(c.tree)})
		sameText(t, "Detect("+c.tree+")", got.Name, c.want)
		check(t, ok == (c.want != ""), "Detect says whether it found a board")
	}
}

func boardByEFI(t T) {
	for _, c := range []struct{ arch, want string }{{"arm64", "arm64-uefi"}, {"amd64", "x86_64-uefi"}, {"arm", ""}} {
		got, _ := board.Detect(board.Facts{Arch: c.arch, Compatible: []byte("linux,dummy-virt\x00"), EFI: true})
		sameText(t, "Detect(UEFI, "+c.arch+")", got.Name, c.want)
	}
}

func boardRows(t T) {
	for _, b := range board.Table() {
		facts := board.Facts{Arch: b.Arch, EFI: b.Firmware == board.UEFI}
		if b.Compatible != "" {
			facts.Compatible = []byte(b.Compatible + "\x00")
		}
		found, _ := board.Detect(facts)
		sameText(t, "Detect", found.Name, b.Name)
		named, ok := board.ByName(b.Name)
		check(t, ok && named == b, "ByName returns the row "+b.Name)
	}
}

func piFlip(t T) {
	config := []byte(rpi.Config('A', "enable_uart=1"))
	slot, err := rpi.FindSlot(config)
	expect(t, "FindSlot", err, nil)
	check(t, slot.Letter == 'A' && slot.Offset < 512, "the letter A is in the first sector")
	config[slot.Offset] = 'B'
	sameText(t, "the flipped file", string(config), rpi.Config('B', "enable_uart=1"))
}

func piRefused(t T) {
	for _, c := range []struct {
		config string
		want   error
	}{
		{"arm_64bit=1\n", rpi.ErrNoSlot},
		{"os_prefix=A/\nos_prefix=B/\n", rpi.ErrSlotTwice},
		{"[pi3]\nos_prefix=A/\n", rpi.ErrSlotFiltered},
		{string(make([]byte, 512)) + "\nos_prefix=A/\n", rpi.ErrSlotFar},
	} {
		_, err := rpi.FindSlot([]byte(c.config))
		expect(t, "FindSlot", err, c.want)
	}
}

func entryNames(t T) {
	name := x86.SlotEntry("A")
	sameText(t, "the name of a good entry", name.String(), "machined-a.conf")
	name.Counted, name.Left = true, 3
	for name.Left > 0 { // as the loader does
		name.Left, name.Done = name.Left-1, name.Done+1
		got, err := x86.ParseEntryName(name.String())
		expect(t, "ParseEntryName", err, nil)
		check(t, got == name, "ParseEntryName reads what String wrote: "+name.String())
	}
	sameText(t, "the name after three boots", name.String(), "machined-a+0-3.conf")
	_, err := x86.ParseEntryName("+3.conf")
	expect(t, "ParseEntryName without a name", err, x86.ErrName)
}
