// Package exec runs commands in contexts, isolated from the rest of the machine by bubblewrap (bwrap).
//
// A command sees the context's folder as /context, the system's programs read-only, a /tmp and a home of its own, and nothing else. The
// package never runs a command without that isolation, and never as uid 0: where it cannot isolate, Start fails with *Unavailable.
//
// # Vocabulary
//
// A sandbox is the set of namespaces that bwrap makes for one command, with a process 1 that ends with the command. A room is a sandbox
// that commands share; init is the part of this program inside of it, which starts them. A profile says what commands may have; a plan is
// what one command gets of it. A process is a command that was started; it has an ID and stays known after it ended. A spool keeps one
// output stream of a process on disk. A blocking reader is one that a process waits for; a flow has those of a process.
//
// # Rules
//
// A process holds the gate of its context (contexts.Acquire) as a writer until nothing of it runs, and lets the gate pause it
// (Access.Yield). It ends when the context is to be replaced. The pipes of a process are emptied into spools also without a reader, but no
// faster than its blocking readers read. The end of a process waits for no reader. An exit code comes from the sandbox, and is never made up.
package exec
