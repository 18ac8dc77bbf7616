// Package faults tests a real server, over its sockets, while the machine under it fails: each test has a fault begin, asks for
// the documented errno with a remedy, for what was acknowledged before, for nothing half made, and for another
// context to be served within a second meanwhile; then it has the fault end, and asks for everything to work again.
//
// What a machine does not have is skipped, and the reason printed. Small disks (ext4 in a loop mount, tmpfs) want root; disks whose
// operations fail or hang are a FUSE file system of the tests' own, served by another process, and want /dev/fuse;
// inotify's limits are set in a user namespace, so that they do not affect other processes of the machine.
//
// # Tested elsewhere
//
// What is here does not repeat:
//   - disk: contexts.TestDiskReserve and TestTemplateDiskReserve (refused beforehand);
//     contexts/seeding.TestPoolGoesFirst, TestSpaceThatAContextNeeds;
//     server.TestAnAuditLogThatFailsIsTold; server.TestTheQuotaOfAContext (EDQUOT)
//   - folders: contexts.TestFolderRemovedByHand, TestLinkAtTheContextsName, TestFolderRemovedByHandHoldsItsContext,
//     TestUnmountedByHand and TestForeignMountAtAContext (overlay); fsservice.TestAHandleOfAnOlderFolderIsStale
//   - hanging: fsservice.TestSessionGoesOnWhileOneStalls, TestSessionStalledHandle, TestSessionEndsWhileOneStalls;
//     contexts.TestStopDoesNotWaitForASlowDisk; server.TestDrainLetsACallEnd, TestStuckStreamEnds
//   - watches: contexts/rootfs/watch.TestWatchReportsLostEvents, TestWatchLimitsNameTheirRemedy
//   - clients that do not read: server.TestASlowReaderHoldsUpItselfOnly, TestAClientThatNeverReadsIsCutOff,
//     TestAClientThatTakesNoContentIsCutOff, TestASlowReaderIsNotCutOff, TestDeleteIsNotHeldUpByAClientThatDoesNotRead;
//     contexts/rootfs/watch.TestOutboxIsBounded; client.TestSlowWatch
//   - clients that leave: server.TestACutConnection, TestAHalfOpenConnection, TestAKilledClient, TestManySessionsLeaveNothing,
//     TestABodyThatEndsEarlyChangesNothing, TestContentThatEndsEarly, TestHalfARequestIsCutOff, TestStrangersAreBounded,
//     TestSilentConnectionsDoNotHoldUpTheEnd, TestEnsureTellsProgressAndThenReady, TestBuildOutlivesItsCaller;
//     fsservice.TestACancelledWriteStreamLeavesNothing, TestSessionWatchAndCancel; contexts.TestSeedingOutlivesItsCaller,
//     TestCloseEndsAFork; contexts/rootfs/tree.TestCopyIsCancelled, TestRemoveAllStopsWithTheContext, TestWalkStops;
//     contexts/template.TestCancelledBuildLeavesNothing
//   - clocks: contexts.TestTheClockIsSet, TestGarbage; contexts/layer.TestSettleWaitsForTheClock;
//     fsservice/handles.TestSettingTheClockMakesNoHandleIdle, TestAnIdleHandleClosesAndOneInUseDoesNot; panels.TestTokensEnd,
//     TestLeases; server.TestExpiryEndsASessionInMidOperation
//   - kill -9 is the ledger's.
package faults
