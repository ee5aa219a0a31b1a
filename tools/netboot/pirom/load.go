package pirom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// ErrNotFound is a file that the server does not have.
var ErrNotFound = errors.New("the server does not have it")

// Loader loads files by TFTP as the ROM and its followers do.
type Loader struct {
	Server netip.AddrPort
	Local  netip.Addr
	// Files are those that were loaded, by the name that was asked for.
	Files map[string][]byte
	// Asked has each name in the order of the requests.
	Asked []string
	ports uint16
}

// Load loads all that a 3B boots from, with the names of its serial number where
// the server has those. Optional files may be missing.
func (b Board) Load(l *Loader) error {
	l.Files = map[string][]byte{}
	// The ROM asks without options, and without the serial number.
	if err := l.get("bootcode.bin"); err != nil {
		return err
	}
	if err := l.optional("bootsig.bin"); err != nil {
		return err
	}
	// From here on it is bootcode.bin that asks.
	prefix := fmt.Sprintf("%08x/", b.Serial)
	switch err := l.look(prefix + "start.elf"); {
	case errors.Is(err, ErrNotFound):
		prefix = ""
	case err != nil:
		return err
	}
	const tsize, blksize = "tsize\x000\x00", "blksize\x001024\x00"
	for _, name := range []string{"autoboot.txt", "config.txt", "recovery.elf"} {
		if err := l.optional(prefix+name, tsize); err != nil {
			return err
		}
	}
	config := string(l.Files[prefix+"config.txt"])
	needed := []string{"start.elf", "fixup.dat"}
	kernel := setting(config, "kernel")
	if kernel == "" {
		kernel = "kernel8.img"
	}
	later := []string{"bcm2710-rpi-3-b.dtb", kernel}
	if words := strings.Fields(setting(config, "initramfs")); len(words) > 0 {
		later = append(later, words[0])
	}
	for _, name := range needed {
		if err := l.get(prefix+name, tsize, blksize); err != nil {
			return err
		}
	}
	// start.elf goes on, and looks for a file before it loads it.
	for _, name := range []string{"dt-blob.bin", "cmdline.txt"} {
		if err := l.optional(prefix+name, tsize, blksize); err != nil {
			return err
		}
	}
	for _, name := range later {
		if err := l.look(prefix + name); err != nil {
			return err
		}
		if err := l.get(prefix+name, tsize, blksize); err != nil {
			return err
		}
	}
	return nil
}

// setting is the last value of a line of config.txt, "name=value" or "name value".
func setting(config, name string) (value string) {
	for line := range strings.Lines(config) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok && rest != "" && strings.ContainsAny(rest[:1], "= ") {
			value = strings.TrimSpace(rest[1:])
		}
	}
	return value
}

func (l *Loader) optional(name string, options ...string) error {
	if err := l.get(name, options...); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

func (l *Loader) get(name string, options ...string) error {
	data, err := l.transfer(name, options, false)
	if err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	l.Files[name] = data
	return nil
}

// look asks for a file and stops after block 1.
func (l *Loader) look(name string) error {
	if _, err := l.transfer(name, []string{"tsize\x000\x00", "blksize\x001024\x00"}, true); err != nil {
		return fmt.Errorf("look for %s: %w", name, err)
	}
	return nil
}

// Get loads one more file, as start.elf does.
func (l *Loader) Get(name string) ([]byte, error) {
	data, err := l.transfer(name, []string{"tsize\x000\x00", "blksize\x001024\x00"}, false)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	return data, nil
}

// transfer uses the few ports from 49152 on in turn, as the ROM does.
func (l *Loader) transfer(name string, options []string, look bool) ([]byte, error) {
	l.Asked = append(l.Asked, name)
	l.ports = (l.ports + 1) % 4
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: l.Local.AsSlice(), Port: 49152 + int(l.ports)})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	request := "\x00\x01" + name + "\x00octet\x00" + strings.Join(options, "")
	if _, err := conn.WriteToUDPAddrPort([]byte(request), l.Server); err != nil {
		return nil, err
	}
	var data bytes.Buffer
	buf := make([]byte, 2048)
	size, block := 512, uint16(0)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return nil, err
		}
		p := buf[:n]
		if n < 4 {
			return nil, fmt.Errorf("a packet of %d bytes", n)
		}
		switch binary.BigEndian.Uint16(p) {
		case 5:
			if p[3] == 1 {
				return nil, ErrNotFound
			}
			return nil, fmt.Errorf("the server says %d %q", p[3], p[4:])
		case 6:
			if err := confirmed(p[2:], options); err != nil {
				return nil, err
			}
			if bytes.Contains(p, []byte("blksize\x001024\x00")) {
				size = 1024
			}
		case 3:
			if binary.BigEndian.Uint16(p[2:]) != block+1 {
				continue
			}
			block++
			data.Write(p[4:])
		}
		if _, err := conn.WriteToUDPAddrPort([]byte{0, 4, byte(block >> 8), byte(block)}, from); err != nil {
			return nil, err
		}
		if p[1] == 3 && look {
			_, err := conn.WriteToUDPAddrPort([]byte("\x00\x05\x00\x00early termination\x00"), from)
			return nil, err
		}
		if p[1] == 3 && n-4 < size {
			return data.Bytes(), nil
		}
	}
}

// confirmed checks that the server confirms nothing that was not asked for, at
// which the ROM stops.
func confirmed(oack []byte, asked []string) error {
	words := strings.Split(string(oack), "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		if !strings.Contains("\x00"+strings.Join(asked, ""), words[i]+"\x00") {
			return fmt.Errorf("the server confirms the option %s, which was not asked for", words[i])
		}
	}
	return nil
}
