// Package ledger shows that nothing that a server acknowledged is lost, and that nothing half made stays, when the
// server is killed under load. It has tests alone: a server in a process of its own is killed (kill -9) again and again
// while panels and a host do every operation; what they read is compared at once. Each of them keeps a ledger, a model of what was
// acknowledged and of the one operation that was not answered; what the next server shows must be the former, with the
// latter done or not done, or done in part where the documentation of that operation says so.
//
// TestKills is the kill ledger (make kills). TestSoak (make soak) runs the same load for long, and measures memory,
// descriptors and goroutines. They run on Linux only, because they read /proc.
package ledger
