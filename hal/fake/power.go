package fake

import "machined/hal"

// Ending is how a simulated machine ended.
type Ending uint8

const (
	Alive Ending = iota
	Restarted
	Off
	Jumped // into a kernel that was loaded
)

// Power is a simulated hal.Power. Its zero value is a machine that is on.
type Power struct {
	Faults
	Ending Ending // the first that took effect
	Arg    string // what Restart handed to the firmware
	// Loaded are the kernel, the initramfs and the arguments of LoadKernel.
	Loaded [3]string
	// CtrlAltDelCaught says that PID 1 gets SIGINT from the keyboard.
	CtrlAltDelCaught bool
}

// Restart implements hal.Power.
func (p *Power) Restart(arg string) error {
	if err := p.failing("Restart"); err != nil {
		return err
	}
	p.end(Restarted, arg)
	return ErrEnded
}

// PowerOff implements hal.Power.
func (p *Power) PowerOff() error {
	if err := p.failing("PowerOff"); err != nil {
		return err
	}
	p.end(Off, "")
	return ErrEnded
}

func (p *Power) end(e Ending, arg string) {
	if p.Ending == Alive {
		p.Ending, p.Arg = e, arg
	}
}

// LoadKernel implements hal.Power.
func (p *Power) LoadKernel(kernel, initramfs, arguments string) error {
	if err := p.failing("LoadKernel"); err != nil {
		return err
	}
	if kernel == "" || initramfs == "" {
		return hal.ErrNotFound
	}
	p.Loaded = [3]string{kernel, initramfs, arguments}
	return nil
}

// StartKernel implements hal.Power.
func (p *Power) StartKernel() error {
	if err := p.failing("StartKernel"); err != nil {
		return err
	}
	if p.Loaded[0] == "" {
		return hal.ErrNotFound
	}
	p.end(Jumped, "")
	return ErrEnded
}

// CatchCtrlAltDel implements hal.Power.
func (p *Power) CatchCtrlAltDel() error {
	if err := p.failing("CatchCtrlAltDel"); err != nil {
		return err
	}
	p.CtrlAltDelCaught = true
	return nil
}

var _ hal.Power = (*Power)(nil)
