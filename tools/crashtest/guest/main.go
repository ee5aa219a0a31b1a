// Command guest is the init of the machine that `make crash-test` starts. It
// runs upgrades on the boot partitions of its disks, as a node does.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"machined/tools/crashtest/scenario"
)

func main() {
	if err := run(); err != nil {
		fmt.Println(scenario.Failed+"all:", err)
	}
	unix.Sync()
	// PID 1 must not return: the kernel would panic over it.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func run() error {
	for dir, fs := range map[string]string{"/dev": "devtmpfs", "/sys": "sysfs", "/proc": "proc"} {
		err := os.MkdirAll(dir, 0o755)
		if err = errors.Join(err, unix.Mount(fs, dir, fs, 0, "")); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	disks, err := filepath.Glob("/sys/block/vd*")
	if err != nil {
		return err
	}
	for _, disk := range disks {
		serial, err := os.ReadFile(disk + "/serial")
		if err != nil {
			return err
		}
		job, err := scenario.ParseSerial(string(serial))
		if err != nil {
			return err
		}
		if err := work("/dev/"+filepath.Base(disk), job); err != nil {
			fmt.Printf("%s%s: %s\n", scenario.Failed, job.Serial(), strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		fmt.Println(scenario.Done + job.Serial())
	}
	return nil
}

// work does a job on a disk.
func work(disk string, job scenario.Job) error {
	b, err := scenario.Find(job.Backend)
	if err != nil {
		return err
	}
	if job.Mode == scenario.Upgrade {
		return upgrade(disk, b)
	}
	for _, s := range scenario.Scenarios() {
		if s.Name == job.Name {
			return record(disk, b, s, job.Mode)
		}
	}
	return fmt.Errorf("there is no scenario %q", job.Name)
}
