// Command eater is the init of a guest in which services take all the memory
// there is: once within a limit of their own, once without.
package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/linux"
)

func main() {
	if len(os.Args) > 1 {
		payload(os.Args[1])
	}
	if err := run(); err != nil {
		say("failed: %v", err)
	}
	say("done")
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func say(format string, args ...any) { fmt.Printf("GUEST "+format+"\n", args...) }

// payload eats memory, or sleeps with a little of it.
func payload(what string) {
	var eaten [][]byte
	for {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		eaten = append(eaten, block)
		if what == "sleep" && len(eaten) == 8 {
			time.Sleep(time.Hour)
		}
	}
}

func run() error {
	for dir, fs := range map[string]string{"/proc": "proc", "/cgroup": "cgroup2"} {
		_ = os.Mkdir(dir, 0o755)
		if err := unix.Mount(fs, dir, fs, 0, ""); err != nil {
			return err
		}
	}
	controllers, _ := os.ReadFile("/cgroup/cgroup.controllers")
	say("controllers: %s", controllers)
	c, ended := linux.Cgroups{Root: "/cgroup"}, make(chan hal.ExitStatus, 10)
	p := linux.NewProcesses(linux.NewReaper(), "/cgroup")
	if _, err := c.Create("/init", hal.CgroupLimits{}); err != nil {
		return err
	}
	if err := c.Enter("/init", 0); err != nil {
		return err
	}
	start := func(what, cgroup string, score int) (int, error) {
		return p.Start(hal.ProcessSpec{
			Argv: []string{"/init", what}, Stdout: -1, Stderr: -1, Cgroup: cgroup, OOMScoreAdj: score, NoNewPrivs: true, Bounded: true,
		}, func(e hal.ExitStatus) { ended <- e })
	}
	if _, err := c.Create("/runtime/containerd", hal.CgroupLimits{MemoryMin: 16 << 20}); err != nil {
		return err
	}
	keeper, err := start("sleep", "/runtime/containerd", -999)
	if err != nil {
		return err
	}
	for name, limits := range map[string]hal.CgroupLimits{"limited": {MemoryMax: 32 << 20, OOMGroup: true}, "unlimited": {}} {
		path := "/services/" + name
		missing, err := c.Create(path, limits)
		if err != nil {
			return err
		}
		if missing != "" {
			say("has not: %s", missing)
		}
		pid, err := start("eat", path, 0)
		if err != nil {
			return err
		}
		select {
		case e := <-ended:
			status, err := c.Status(path)
			say("%s: the eater ended %v by signal %d", name, e.PID == pid, e.Signal)
			say("%s: counted %v, %v", name, status.OOMKills > 0, err)
		case <-time.After(30 * time.Second):
			say("%s: the eater goes on", name)
			_ = c.Kill(path)
			<-ended
		}
	}
	say("the runtime is there: %v", p.Signal(keeper, 0) == nil)
	return nil
}
