package piboot

import (
	"path"
	"strings"
)

// chooseSystem settles the prefix, and with it kernel and device tree. The
// prefix is viable only if both are there.
func (d *decision) chooseSystem() error {
	prefix := d.Settings.Values["os_prefix"]
	if prefix == "" && d.Settings.Bool("upstream_kernel", false) {
		prefix = "upstream/"
	}
	missing, err := d.trySystem(prefix)
	if err != nil {
		return err
	}
	if missing != nil && prefix != "" {
		d.PrefixDropped = true
		d.DropReason = missing.Missing + " is missing"
		d.warn("os_prefix=%s is dropped: %s", prefix, d.DropReason)
		prefix = ""
		if missing, err = d.trySystem(prefix); err != nil {
			return err
		}
	}
	if missing != nil {
		if d.PrefixDropped {
			missing.Hint = "the prefix had been dropped, since " + d.DropReason
		}
		return missing
	}
	d.OSPrefix = prefix
	return nil
}

// trySystem looks for kernel and device tree under prefix, and says which of
// them is missing.
func (d *decision) trySystem(prefix string) (missing *NoBootError, err error) {
	kernels := d.kernelNames()
	file, ok, err := d.findFirst(prefix, kernels)
	if err != nil {
		return nil, err
	}
	if !ok {
		file, err = confine(prefix, kernels[0])
		return &NoBootError{Missing: file, Seen: seenNoKernel}, err
	}
	d.Kernel = file

	trees := d.treeNames()
	if len(trees) == 0 {
		d.DeviceTree = "" // device_tree= with no name: the kernel gets none
		return nil, nil
	}
	if file, ok, err = d.findFirst(prefix, trees); err != nil {
		return nil, err
	}
	if !ok {
		file, err = confine(prefix, trees[0])
		return &NoBootError{Missing: file, Seen: seenNoTree, Hint: "tried " + strings.Join(trees, ", ")}, err
	}
	d.DeviceTree = file
	return nil, nil
}

// kernelNames gives the names to try, and sets the mode that goes with them.
func (d *decision) kernelNames() []string {
	d.Arm64 = d.Settings.Bool("arm_64bit", false)
	name := d.Settings.Values["kernel"]
	switch {
	case name == "" && d.Arm64:
		return []string{"kernel8.img"}
	case name == "":
		return []string{"kernel7.img", "kernel.img"}
	}
	switch strings.ToLower(path.Base(name)) {
	case "kernel8.img", "kernel8_rt.img":
		d.Arm64 = true
	case "kernel.img", "kernel7.img", "kernel7l.img", "kernel8-32.img":
		d.Arm64 = false
	}
	return []string{name}
}

// treeNames gives the names of the device tree to try, in order; none if the
// config file turns device trees off.
func (d *decision) treeNames() []string {
	name, set := d.Settings.Values["device_tree"]
	switch {
	case set && name == "":
		return nil
	case set:
		return []string{name}
	case d.Settings.Bool("upstream_kernel", false):
		return append(append([]string{}, d.board.Upstream...), d.board.Trees...)
	}
	return d.board.Trees
}

// chooseInitramfs resolves the initramfs files. The firmware goes on without
// any if one cannot be loaded.
func (d *decision) chooseInitramfs() error {
	names := d.Settings.Initramfs
	if d.Settings.Bool("auto_initramfs", false) {
		auto, err := d.autoInitramfs()
		if err != nil {
			return err
		}
		if auto != "" {
			names = auto
		}
	}
	if names == "" {
		return nil
	}
	for _, name := range strings.Split(names, ",") {
		file, ok, err := d.find(d.OSPrefix, name)
		if err != nil {
			return err
		}
		if !ok {
			d.warn("%s is missing; the firmware boots without any initramfs", file)
			d.Initramfs = nil
			return nil
		}
		d.Initramfs = append(d.Initramfs, file)
	}
	return nil
}

// autoInitramfs derives the name from the kernel's: kernel8.img has
// initramfs8. It gives "" if the kernel has another name or the file is not
// there.
func (d *decision) autoInitramfs() (string, error) {
	middle, isKernel := strings.CutPrefix(path.Base(d.Kernel), "kernel")
	middle, isImage := strings.CutSuffix(middle, ".img")
	if !isKernel || !isImage {
		d.warn("auto_initramfs finds nothing: %s is not named kernel*.img", d.Kernel)
		return "", nil
	}
	file, ok, err := d.find(d.OSPrefix, "initramfs"+middle)
	if err == nil && !ok {
		d.warn("auto_initramfs finds no %s", file)
		file = ""
	}
	if file != "" {
		file = "/" + file // it has its prefix
	}
	return file, err
}

// chooseOverlays resolves the overlays in order. One that is missing is passed
// over by the firmware.
func (d *decision) chooseOverlays() error {
	overlays, ok := d.Settings.Values["overlay_prefix"]
	if !ok {
		overlays = "overlays/"
	}
	prefix := d.OSPrefix + overlays
	if d.OSPrefix != "" && len(d.Settings.DeviceTree) > 0 {
		readme, there, err := d.find(prefix, "README")
		if err != nil {
			return err
		}
		if !there {
			prefix = overlays
			d.warn("%s is missing, so overlays come from %s without the prefix", readme, overlays)
		}
	}
	for _, line := range d.Settings.DeviceTree {
		name, _, _ := strings.Cut(line.Value, ",")
		name, _, _ = strings.Cut(name, ":") // the old separator
		if line.Key != "dtoverlay" || name == "" {
			continue // an empty dtoverlay ends the scope of the one before
		}
		file, there, err := d.find(prefix, name+".dtbo")
		if err != nil {
			return err
		}
		if !there {
			d.warn("the overlay %s is missing; the firmware passes it over", file)
			continue
		}
		d.Overlays = append(d.Overlays, file)
	}
	return nil
}

// chooseCmdline reads the command line. A file that is missing under the
// prefix is looked for without it.
func (d *decision) chooseCmdline() error {
	name := d.Settings.Values["cmdline"]
	if name == "" {
		name = "cmdline.txt"
	}
	first, ok, err := d.find(d.OSPrefix, name)
	if err != nil {
		return err
	}
	file := first
	if !ok && d.OSPrefix != "" {
		if file, ok, err = d.find("", name); err != nil {
			return err
		}
		if ok {
			d.warn("%s is missing; the command line comes from %s", first, file)
		}
	}
	if !ok {
		d.warn("%s is missing; the kernel gets no command line but the firmware's own", first)
		return nil
	}
	d.CmdlineFile = file
	d.Cmdline, err = d.readCmdline(file)
	return err
}
