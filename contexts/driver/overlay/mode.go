package overlay

// mode is what sets the two ways of mounting apart.
type mode struct {
	// name is the driver's.
	name string
	// source starts the source of every mount, by which a mount is known again.
	source string
	// options of every mount, whatever the kernel's defaults are.
	options [][2]string
	// keptXattr is the extended attribute of a state's keptName.
	keptXattr string
	// userns says that it works in a user namespace, and there alone.
	userns bool
}

func rootMode() mode {
	return mode{name: Name, source: "ctxfs:", keptXattr: "trusted.ctxfs.kept", options: [][2]string{
		{"redirect_dir", "on"}, // directories of the layer can be renamed
		{"index", "on"},        // hard links hold across the first write, and an upper is mounted once
		{"metacopy", "off"},    // an upper holds whole files
		{"xino", "auto"},       // inode numbers are one space even where layers lie elsewhere
	}}
}

// usernsMode cannot have redirect_dir, which the kernel does not combine with userxattr, nor index, for which it
// lacks the right to open files by handle. It asks for index all the same: the kernel then drops
// it, and yet refuses a second mount of an upper directory.
func usernsMode() mode {
	return mode{name: UserNSName, source: "ctxfs-userns:", keptXattr: "user.ctxfs.kept", userns: true, options: [][2]string{
		{"userxattr", ""},   // its notes are user.overlay.*, which any user may write
		{"index", "on"},     // an upper is mounted once
		{"metacopy", "off"}, // an upper holds whole files
		{"xino", "auto"},    // inode numbers are one space even where layers lie elsewhere
	}}
}
