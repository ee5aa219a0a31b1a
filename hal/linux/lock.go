package linux

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mlockOnFault is MLOCK_ONFAULT of mlock2(2).
const mlockOnFault = 1

// LockProgram implements hal.Processes. It locks what is mapped from files alone:
// without swap the kernel cannot evict other memory, and Go could not give it back
// if it were locked.
func (p *Processes) LockProgram() (int64, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, fmt.Errorf("lock the program in memory: %w", err)
	}
	defer f.Close()
	locked := int64(0)
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			return locked, lines.Err()
		}
		start, end, ok := fileMapping(lines.Text())
		if !ok {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MLOCK2, start, end-start, mlockOnFault); errno != 0 {
			return locked, fmt.Errorf("lock %d bytes of the program in memory: %w", end-start, errno)
		}
		locked += int64(end - start)
	}
}

// fileMapping returns the addresses of a line of proc_pid_maps(5), and whether a
// file is mapped there.
func fileMapping(line string) (start, end uintptr, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 || !strings.HasPrefix(fields[5], "/") {
		return 0, 0, false
	}
	from, to, found := strings.Cut(fields[0], "-")
	a, err := strconv.ParseUint(from, 16, strconv.IntSize)
	b, err2 := strconv.ParseUint(to, 16, strconv.IntSize)
	return uintptr(a), uintptr(b), found && err == nil && err2 == nil && a < b
}
