package piboot

// Board is what distinguishes one model for the firmware.
type Board struct {
	// Filters are the model filters that apply, in lower case.
	Filters []string
	// Type is the number that [board-type=N] compares with: the type field of
	// the board's revision code.
	Type uint64
	// Serial is the number that [0x...] compares with; 0 matches none.
	Serial uint64
	// MemoryMB is the size of the memory, in MiB, for gpu_mem_256 and so on.
	MemoryMB int
	// Trees are the names of the device trees to try, in order, and Upstream
	// those of upstream Linux.
	Trees, Upstream []string
}

// Pi3APlus is the Raspberry Pi 3 Model A+ (revision codes 9020e0 and 9020e1).
func Pi3APlus() Board {
	return Board{
		Filters:  []string{"pi3", "pi3+"},
		Type:     0x0e,
		MemoryMB: 512,
		Trees:    []string{"bcm2710-rpi-3-a-plus.dtb", "bcm2710-rpi-3-b-plus.dtb", "bcm2710-rpi-3-b.dtb"},
		Upstream: []string{"bcm2837-rpi-3-a-plus.dtb", "bcm2837-rpi-3-b-plus.dtb", "bcm2837-rpi-3-b.dtb"},
	}
}
