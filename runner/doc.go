// Package runner keeps commands running while the server is not. A runner is a process of its own (ctxfs runner) that owns the commands of
// one contexts directory and their output: it runs the engine of package exec and answers ExecService on a unix socket. The server is its
// only caller. A server that is killed leaves the runner alone, and the next server finds it by its directory.
//
// # Directory
//
// Each runner has a numbered directory below the exec directory of the state: its sockets, the records and the output of its processes, and
// the file "lock", which is locked for as long as the runner lives. A directory that is not locked belongs to a runner that was killed, or
// that left because nothing ran in it. The next runner takes over its records. Usually there is one runner. After an upgrade there are two:
// the older one serves its own processes until the last of them has ended, and then hands its directory over.
//
// # Gate
//
// The server keeps the gates of contexts. Runner and server are connected by a second socket, the link: the runner asks there for access to
// a context, and gets the descriptor of its folder. The server holds the gate (contexts.Access) until the runner releases it, so no context
// is replaced, deleted or unmounted while a command runs in it: the server first asks the runner to end the command. When the server ends,
// the runner keeps the descriptors. The next server takes the gates again before it serves: it opens the context and compares the folder
// with the runner's descriptor. If the folder is another one, the command ends.
//
// # Trust
//
// The state directory is private to the server's user, and both ends of a socket must belong to that user. A runner does what the server
// asks. The server trusts the runner, which runs the same program. Sandboxes are not trusted, and see none of this.
package runner
