package main

// sabotage breaks something, to see that the simulation notices.
type sabotage uint8

const (
	nothing sabotage = iota
	// wipeAlways has the provisioner wipe, whatever it is asked.
	wipeAlways
	// remakeVolumes has it make volumes anew that are there.
	remakeVolumes
	// forgetAddresses has RemoveAddress do nothing.
	forgetAddresses
	// dropEvents has a watch lose changes.
	dropEvents
	// removeForeign has the removal of an address take another one along.
	removeForeign
	// setBack has the clock set to long ago.
	setBack
	// shakeLinks makes a link move whenever the node looks at it.
	shakeLinks
	// loseFlags has volumes mounted without their flags.
	loseFlags
	// forgetHash has the runtime forget the specs of its pods.
	forgetHash
	// claimForeign has the node take a pod of somebody else for its own.
	claimForeign
	// neverStart has the runtime start no container.
	neverStart
	// seemFull has the disk always seem full.
	seemFull
)
