package netboot

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFact bounds what the kernel tells of the machine, in bytes.
const maxFact = 256

// Machine fills in what the kernel tells of the machine, below root. What is not
// there stays empty.
func Machine(f *Facts, root string) {
	f.Serial = fact(root, "/proc/device-tree/serial-number")
	if f.Serial == "" {
		f.Serial = fact(root, "/sys/class/dmi/id/product_serial")
	}
	f.UUID = strings.ToLower(fact(root, "/sys/class/dmi/id/product_uuid"))
	f.BootID = fact(root, "/proc/sys/kernel/random/boot_id")
	f.MACs = []string{}
	links, _ := filepath.Glob(filepath.Join(root, "/sys/class/net/*/device"))
	for _, link := range links { // those of hardware
		mac := fact("", filepath.Join(filepath.Dir(link), "address"))
		if len(mac) == len("00:00:00:00:00:00") && !slices.Contains(f.MACs, mac) {
			f.MACs = append(f.MACs, strings.ToLower(mac))
		}
	}
	slices.Sort(f.MACs)
}

func fact(root, path string) string {
	f, err := os.Open(filepath.Join(root, path))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFact))
	if err != nil {
		return ""
	}
	return string(bytes.Trim(text, "\x00 \t\r\n")) // strings of the device tree end in a zero
}
