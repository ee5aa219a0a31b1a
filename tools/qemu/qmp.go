package qemu

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// PowerButton presses the machine's ACPI or GPIO power button.
func (v *VM) PowerButton() error { return v.qmp("system_powerdown") }

// Reset presses the machine's reset button.
func (v *VM) Reset() error { return v.qmp("system_reset") }

// qmp runs one command of the QEMU Machine Protocol.
func (v *VM) qmp(command string) error {
	conn, err := net.Dial("unix", v.qmpPath())
	if err != nil {
		return fmt.Errorf("reach QEMU's monitor: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	for _, c := range []string{"qmp_capabilities", command} {
		if _, err := fmt.Fprintf(conn, "{\"execute\":%q}\n", c); err != nil {
			return fmt.Errorf("tell QEMU to %s: %w", command, err)
		}
		if err := answer(lines); err != nil {
			return fmt.Errorf("tell QEMU to %s: %w", command, err)
		}
	}
	return nil
}

// answer reads lines up to the answer of a command; events come in between.
func answer(lines *bufio.Scanner) error {
	for lines.Scan() {
		var m struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		if m.Error != nil {
			return fmt.Errorf("QEMU refused: %s", m.Error.Desc)
		}
		if m.Return != nil {
			return nil
		}
	}
	return fmt.Errorf("QEMU hung up: %w", lines.Err())
}
