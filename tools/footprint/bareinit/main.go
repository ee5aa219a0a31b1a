// Command bareinit is the init that does nothing: what a kernel costs without
// machined. It prints the memory that is left, and stays.
package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	// The marker comes first: the time of it is what is measured.
	fmt.Println("bareinit: started")
	_ = os.Mkdir("/proc", 0o755)
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("bareinit:", err)
	}
	for {
		meminfo, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			fmt.Println("bareinit:", err)
		}
		fmt.Printf("%s\nbareinit: end\n", meminfo)
		time.Sleep(5 * time.Second)
	}
}
