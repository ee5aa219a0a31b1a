package qemu

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"
)

// PowerButton presses the machine's ACPI or GPIO power button.
func (v *VM) PowerButton() error { return v.qmp("system_powerdown", nil) }

// Reset presses the machine's reset button.
func (v *VM) Reset() error { return v.qmp("system_reset", nil) }

// InsertDisk plugs in the disk of a machine that was started without.
func (v *VM) InsertDisk() error {
	return v.qmp("device_add", map[string]any{"driver": "usb-storage", "drive": "d0", "id": "late"})
}

// PlugUSB plugs USBDisk in.
func (v *VM) PlugUSB() error {
	return v.qmp("device_add", map[string]any{"driver": "usb-storage", "drive": "usb0", "id": "stick"})
}

// PullUSB pulls it out, as a person does: without a word.
func (v *VM) PullUSB() error { return v.qmp("device_del", map[string]any{"id": "stick"}) }

// Crash has the kernel panic, by its SysRq key on the serial console.
func (v *VM) Crash() error {
	if err := v.qmp("chardev-send-break", map[string]any{"id": "serial0"}); err != nil {
		return err
	}
	_, err := io.WriteString(v.serial, "c")
	return err
}

// PlugCable plugs the cable of the second NIC in, or pulls it out.
func (v *VM) PlugCable(in bool) error {
	return v.qmp("set_link", map[string]any{"name": "nic1", "up": in})
}

// qmp runs one command of the QEMU Machine Protocol.
func (v *VM) qmp(command string, arguments map[string]any) error {
	conn, err := net.Dial("unix", v.qmpPath())
	if err != nil {
		return fmt.Errorf("reach QEMU's monitor: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	type call struct {
		Execute   string         `json:"execute"`
		Arguments map[string]any `json:"arguments,omitempty"`
	}
	lines, calls := bufio.NewScanner(conn), json.NewEncoder(conn)
	for _, c := range []call{{Execute: "qmp_capabilities"}, {Execute: command, Arguments: arguments}} {
		if err := calls.Encode(c); err != nil {
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
