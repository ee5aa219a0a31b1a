package main

import (
	"context"
	"errors"
	"io"

	"machined/api"
)

// ramNode is a netbooted node for the API: it has no slots.
type ramNode struct{ *node }

// served is the node that the API is of.
func (n *node) served() api.Node {
	if n.boot.Netbooted {
		return ramNode{n}
	}
	return n
}

func fromRAMAlone() error {
	return &api.Failure{Cause: api.NotNow, Err: errors.New("the node runs from RAM: it has no slots to upgrade; build the netboot directory anew and restart the node, or install it on a disk")}
}

// Push is a part of api.Upgrades, as are those below.
func (ramNode) Push(context.Context, string, io.Reader, api.UpgradeOptions) (version, slot string, err error) {
	return "", "", fromRAMAlone()
}

// Upgrade fetches no bundle.
func (ramNode) Upgrade(_, _, _ string, _ api.UpgradeOptions) error { return fromRAMAlone() }

// TryStaged finds nothing staged.
func (ramNode) TryStaged(string, bool) error { return fromRAMAlone() }

// CommitUpgrade finds no trial.
func (ramNode) CommitUpgrade(string) error { return fromRAMAlone() }

// Rollback finds nothing to go back to.
func (ramNode) Rollback(string) error { return fromRAMAlone() }
