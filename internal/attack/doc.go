// Package attack is a suite of attacks on a real server, over the wire. It owns no
// code of the product: its tests plant secrets around a context, have a hostile panel and a
// hostile program on disk try to reach them, and check after every case that nothing
// got out and nothing outside was touched. The same cases run against a deliberately
// naive rootfs, to show that they can fail.
//
// Vocabulary: a world is a server with its secrets; a row is one way to attack a
// path, tried by every RPC that takes one; a race is one operation against one mover
// on disk. Environment: ATTACKTIME is the time of each race, over all
// configurations together (a third of a second by default).
package attack
