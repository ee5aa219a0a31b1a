package piboot

// chooseConfig picks the config file and reads it.
func (d *decision) chooseConfig() error {
	if err := d.needBootcode(); err != nil {
		return err
	}
	names := []string{"config.txt"}
	if d.tryboot {
		aB, err := d.autoboot()
		if err != nil {
			return err
		}
		if !aB {
			names = []string{"tryboot.txt", "config.txt"}
		}
	}
	name, ok, err := d.findFirst("", names)
	if err != nil {
		return err
	}
	if !ok {
		d.warn("there is no config.txt; the firmware goes on with its defaults")
		return nil
	}
	if name != names[0] {
		d.warn("the tryboot flag is set but there is no %s; config.txt is taken, so this is no trial boot", names[0])
	}
	d.ConfigFile = name
	d.Settings, err = d.config(name, true)
	d.Warnings = append(d.Warnings, d.Settings.Warnings...)
	return err
}

// needBootcode: a Pi before the 4 has nothing else to start with.
func (d *decision) needBootcode() error {
	_, ok, err := d.find("", "bootcode.bin")
	if err == nil && !ok {
		err = &NoBootError{Missing: "bootcode.bin", Seen: seenNothing}
	}
	return err
}

// autoboot says whether autoboot.txt makes tryboot choose between partitions
// instead of between config files.
func (d *decision) autoboot() (aB bool, err error) {
	name, ok, err := d.find("", "autoboot.txt")
	if !ok || err != nil {
		return false, err
	}
	s, err := d.config(name, false)
	if err != nil {
		return false, err
	}
	if n, ok := s.Int("boot_partition"); ok && n > 1 {
		d.warn("autoboot.txt asks for partition %d; only the first is looked at here", n)
	}
	return s.Bool("tryboot_a_b", false), nil
}

// chooseFirmware picks the start and fixup files. bootcode.bin does that, so
// what included files say does not count.
func (d *decision) chooseFirmware() error {
	early := Settings{}
	if d.ConfigFile != "" {
		var err error
		if early, err = d.config(d.ConfigFile, false); err != nil {
			return err
		}
	}
	variant, why := d.variant(early)
	start, fixup := "start"+variant+".elf", "fixup"+variant+".dat"
	if v := early.Values["start_file"]; v != "" {
		start, why = v, "start_file"
	}
	if v := early.Values["fixup_file"]; v != "" {
		fixup = v
	}
	var ok bool
	var err error
	if d.Start, ok, err = d.find("", start); err != nil {
		return err
	}
	if !ok {
		return &NoBootError{Missing: d.Start, Seen: seenNoStart, Hint: "it was selected by " + why}
	}
	if d.Fixup, ok, err = d.find("", fixup); err != nil {
		return err
	}
	if !ok {
		d.warn("%s is missing; without it the memory split is wrong and part of the memory is lost", d.Fixup)
		d.Fixup = ""
	}
	return nil
}

// variant gives the suffix of the start file, and the setting behind it. A
// start file asked for by name wins over the one that gpu_mem implies.
func (d *decision) variant(s Settings) (suffix, why string) {
	switch {
	case s.Bool("start_x", false):
		return "_x", "start_x=1"
	case s.Bool("start_debug", false):
		return "_db", "start_debug=1"
	}
	gpu, ok := s.Int("gpu_mem")
	key := map[int]string{256: "gpu_mem_256", 512: "gpu_mem_512", 1024: "gpu_mem_1024"}[d.board.MemoryMB]
	if n, set := s.Int(key); set {
		gpu, ok = n, true
	}
	if ok && gpu <= 16 {
		return "_cd", "gpu_mem=16"
	}
	return "", "default"
}
