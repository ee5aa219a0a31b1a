// Package config reads the machine config: one YAML document that describes
// the whole node.
//
// The decoder is strict and complete. An unknown field is an error, because a
// misspelt `depends_on` that is passed over in silence is found only when the
// board does not come back; and every error of a file is reported at once,
// with line and column, because each round of correction may cost a reboot.
//
// Nothing here touches the system. Sources are read through functions that the
// caller hands in, and names (of disks, users, interfaces) are checked for form
// only: the hardware may turn up later than the config.
package config
