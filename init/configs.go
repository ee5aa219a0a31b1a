package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"machined/api"
	"machined/hal"
	"machined/init/config"
)

// configs is what the API and the loop share about the config.
type configs struct {
	// writing is held by the one who applies a config, for as long as the card takes:
	// the loop, which feeds the watchdog, never takes it.
	writing sync.Mutex

	// mu guards the following, for moments.
	mu  sync.Mutex
	now *config.Loaded // that the node runs by
	// applied are closed once the loop runs by a config that was applied.
	applied []chan struct{}
}

const (
	// keptConfigs is how many configs STATE keeps beside the newest: of those that
	// do not load the node goes back to the last one that does.
	keptConfigs = 4
	// applyPatience bounds the wait for the loop to act on a config.
	applyPatience = 15 * time.Second
)

// configPath is a config in STATE, 0 being the newest.
func configPath(age int) string {
	if age == 0 {
		return stateDir + "/" + configName
	}
	return fmt.Sprintf("%s/config.%d.yaml", stateDir, age)
}

// ApplyConfig is a part of api.Upgrades.
func (n *node) ApplyConfig(by string, text []byte, dryRun bool) (api.Applied, error) {
	c, warnings, err := config.Parse("config", text)
	var faults config.Errors
	if errors.As(err, &faults) {
		lines := config.Rejected{Name: "config", Err: err}.Details()
		return api.Applied{}, &api.Failure{Cause: api.BadInput, Err: errors.New(strings.Join(lines, "\n"))}
	} else if err != nil {
		return api.Applied{}, &api.Failure{Cause: api.BadInput, Err: err}
	}
	if !dryRun {
		// Whoever comes second is told what his config changes of that of the first.
		n.configs.writing.Lock()
		defer n.configs.writing.Unlock()
	}
	n.configs.mu.Lock()
	now := n.configs.now
	n.configs.mu.Unlock()
	if now == nil {
		return api.Applied{}, &api.Failure{Cause: api.NotNow, Err: errors.New("the node has not read its config yet; ask again in a moment")}
	}
	a := api.Applied{
		Warnings:    append(warnings.Lines(), withoutEffect(now.Config.Machine, c.Machine)...),
		AfterReboot: afterReboot(now.Config.Machine, c.Machine, n.boot.Netbooted),
		Unchanged:   now.Source == configPath(0) && bytes.Equal(now.Raw, text),
	}
	if dryRun || a.Unchanged {
		return a, nil
	}
	if err := n.keepConfig(text); err != nil {
		return api.Applied{}, err
	}
	n.log.Printf("config", "A new one was applied by %s.", by)
	return a, n.actOnConfig()
}

// actOnConfig has the loop read the config anew, and waits until it has.
func (n *node) actOnConfig() error {
	done := make(chan struct{})
	n.configs.mu.Lock()
	n.configs.applied = append(n.configs.applied, done)
	n.configs.mu.Unlock()
	n.kick()
	select {
	case <-done:
		return nil
	case <-time.After(applyPatience):
		return errors.New("the config is kept, and the node has not acted on it yet; see its MachineConfig")
	}
}

// keepConfig writes a config to STATE. Those before it move up: cut at any write,
// one of them is there twice. The caller holds writing.
func (n *node) keepConfig(text []byte) error {
	if n.stateFile(configName) == "" {
		return &api.Failure{Cause: api.NotNow, Err: errors.New("STATE, which keeps the config, is not there; see its VolumeStatus")}
	}
	for age := keptConfigs; age > 0; age-- {
		older, err := n.files.Read(n.at(configPath(age - 1)))
		if errors.Is(err, hal.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("keep the config before: %w", err)
		}
		if err := n.files.Replace(n.at(configPath(age)), older, false); err != nil {
			return fmt.Errorf("keep the config before: %w", err)
		}
	}
	if err := n.files.Replace(n.at(configPath(0)), text, false); err != nil {
		return fmt.Errorf("keep the config: %w", err)
	}
	return nil
}

// followConfig acts on a config that was applied.
func (n *node) followConfig() {
	n.configs.mu.Lock()
	applied := n.configs.applied
	n.configs.applied = nil
	n.configs.mu.Unlock()
	if len(applied) == 0 {
		return
	}
	if err := n.loadConfig(); err != nil {
		n.log.Printf("config", "%v.", err)
	} else {
		n.useConfig()
	}
	for _, done := range applied {
		close(done)
	}
}

// useConfig does anew what was done by another config. The controllers follow by
// themselves.
func (n *node) useConfig() {
	if n.boot.Resident {
		return // the rest is the successor's
	}
	if err := n.configureWatchdog(); err != nil {
		n.log.Printf("watchdog", "%v.", err)
	}
	if err := n.setSysctls(); err != nil {
		n.log.Printf("sysctls", "%v.", err)
	}
	n.startSinks()
	if m := n.upgrades.Manager; m != nil {
		m.SetPolicy(n.upgradePolicy())
	}
	if n.servicesBy != 0 || n.systemStatus != nil {
		return // they have not started yet, or cannot without the slot's system
	}
	if err := n.prepareServices(); err != nil {
		n.log.Printf("services", "%v.", err)
	}
}
