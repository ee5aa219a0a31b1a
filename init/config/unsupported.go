package config

// notActedOn is the one table of fields that are valid and have no effect in
// this version. A release that implements a field removes its line. List
// indexes are left out: `[]` stands for any.
func notActedOn(pattern string) bool {
	switch pattern {
	case "machine.services[].probe",
		"machine.services[].limits",
		"machine.services[].gates",
		"machine.services[].critical",
		"machine.network.interfaces[].wifi",
		"machine.runtime",
		"machine.pods",
		"machine.logs.sinks",
		"machine.upgrade":
		return true
	}
	return false
}
