package main

import "fmt"

// configureWatchdog applies the config to the watchdog that stage 1 armed.
func (n *node) configureWatchdog() error {
	if n.watchdog == nil {
		return nil
	}
	want := n.loaded.Config.Machine.Watchdog
	if want.Disabled {
		err := n.watchdog.Disarm()
		n.watchdog, n.boot.WatchdogSecs = nil, 0
		return err
	}
	seconds := watchdogTimeout // an earlier config may have had another
	if want.Timeout != 0 {
		seconds = int(want.Timeout.Seconds())
	}
	took, err := n.watchdog.Start(seconds)
	if err != nil {
		return err
	}
	n.boot.WatchdogSecs = took
	if took != seconds && want.Timeout != 0 {
		return fmt.Errorf("the config asks for a time-out of %d s and the hardware took %d s", seconds, took)
	}
	return nil
}
