// Package entry is the first step of a command inside of its sandbox: it sets the limits of the process, has Landlock restrict it to the
// paths that it was given, and becomes the command.
//
// The step is this program, run again. It runs while packages are initialized, before those of the server: it takes 3 ms
// instead of 8 ms, as much as prlimit(1) and nice(1) together. It must not use other packages of this module.
package entry

// The first arguments of the program in this step: init enter FD COMMAND [ARG...]. A spare has init await FD.
const (
	name   = "init"
	job    = "enter"
	asleep = "await"
)

// Access is what a process may do with a directory and what is in it, or with a file.
type Access int

const (
	// List is to list directories.
	List Access = iota
	// Read is to read files too.
	Read
	// Execute is to execute files too.
	Execute
	// Use is to read and write files that exist, as those in /dev.
	Use
	// All is everything.
	All
)

// Path is what Landlock permits.
type Path struct {
	Path   string
	Access Access
}

// Limit is a limit of setrlimit(2), for both of its values.
type Limit struct {
	Resource int
	Value    uint64
}

// Quota is a limit of the sandbox's user namespace: the number that a file in /proc/sys/user gets (namespaces(7)). It counts what all processes in
// the sandbox have, apart from those of other sandboxes with the same user.
type Quota struct {
	Name  string
	Value int64
}

// Step is what to do before the command.
type Step struct {
	Limits []Limit `json:",omitempty"`
	// Quotas need CAP_SYS_RESOURCE. The step gives it up, which needs CAP_SETPCAP. One that cannot be set, such as where /proc/sys is read-only, is left out.
	Quotas []Quota `json:",omitempty"`
	// Nice is added to the niceness.
	Nice int `json:",omitempty"`
	// Paths are permitted, and no others. The step leaves out those that do not exist. Without any there is no restriction.
	Paths []Path `json:",omitempty"`
	// Environment is the descriptor of a file with variables, NAME=VALUE and a NUL each, which the command gets besides this program's own; 0
	// for none. This program does not begin with them: some have a program load libraries.
	Environment int `json:",omitempty"`
	// Session makes the command the leader of a session whose controlling terminal is standard input.
	Session bool `json:",omitempty"`
	// Terminals is the descriptor of a directory whose terminals may be opened again, and is closed; 0 for none.
	Terminals int `json:",omitempty"`
	// Keep is a descriptor that the command keeps besides the standard ones; 0 for none.
	Keep int `json:",omitempty"`
	// Inside says that bwrap started this program: the step waits until process 1, which is bwrap too, has closed the files that both were started with.
	Inside bool `json:",omitempty"`
	// Begin is the descriptor of a pipe; 0 for none. The step waits for a byte in it before it becomes the command, and fails if the pipe ends.
	Begin int `json:",omitempty"`

	// confirm is the socket on which a spare confirms that the command begins; 0 for none.
	confirm int
}

// Argv returns the arguments of program, which is this one, that do a step and then become the command argv. fd is the descriptor of a file with the
// step as JSON: /proc shows the arguments of process 1, which has these too, to all commands of a sandbox.
func Argv(program, fd string, argv ...string) []string {
	return append([]string{program, name, job, fd}, argv...)
}

// Order is what a spare becomes.
type Order struct {
	Step Step
	// Argv has bytes, since the text of JSON is UTF-8, and arguments need not be.
	Argv [][]byte
}

// OrderOf returns the order to do a step and then become the command argv.
func OrderOf(s Step, argv ...string) Order {
	o := Order{Step: s}
	for _, a := range argv {
		o.Argv = append(o.Argv, []byte(a))
	}
	return o
}

// OrderFiles is how many files come with an order: the working directory, the standard files, the variables, as Step.Environment has them, and the
// order as JSON.
const OrderFiles = 6

// SpareArgv returns the arguments of program, which is this one, that wait for an order on a socket of packets, and then do its step and become its
// command. A spare has everything behind it that takes time: the start of this program.
//
// A spare confirms with a packet of one byte before it becomes the command, and before it reports that it cannot. A spare that has ended without that has
// not run the command: the order may go to another one. A spare that has confirmed may have run it: the order must not.
func SpareArgv(program, fd string) []string { return []string{program, name, asleep, fd} }
