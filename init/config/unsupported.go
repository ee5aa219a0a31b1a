package config

// notActedOn is the one table of fields that are valid and have no effect in
// this version. A release that implements a field removes its line. List
// indexes are left out: `[]` stands for any.
func notActedOn(pattern string) bool {
	switch pattern {
	case "machine.network.interfaces[].wifi":
		return true
	}
	return false
}
