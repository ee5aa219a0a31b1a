package netboot

// Facts are what a node tells of itself when it enrols.
type Facts struct {
	Board   string   `json:"board"`
	Serial  string   `json:"serial"` // of the device tree or DMI; may be empty
	UUID    string   `json:"uuid"`   // of DMI; may be empty
	MACs    []string `json:"macs"`
	Version string   `json:"version"`
	BootID  string   `json:"boot_id"`
}

// Request is what a node enrols with: POST /node/enroll.
type Request struct {
	Token string `json:"token"`
	Nonce string `json:"nonce"` // the same for all calls of a boot
	Facts
}

// Identity is a node's PKI in PEM.
type Identity struct {
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// Enrolment is what a server gives a node that it knows.
type Enrolment struct {
	Config   string    `json:"config"` // machine config, YAML; empty for none
	Identity *Identity `json:"identity,omitempty"`
	Session  string    `json:"session"` // for Report, secret
}

// Status is how far a node has come.
type Status struct {
	Phase   string `json:"phase"`   // kernel, config, api, ready, installing, installed
	Percent int    `json:"percent"` // 0 to 100
	Message string `json:"message"`
}

// Report is a status with whose it is: POST /node/status.
type Report struct {
	Session string `json:"session"`
	Status
}
