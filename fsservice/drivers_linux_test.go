package fsservice_test

import (
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
)

// TestOnOverlays runs some tests of each kind. Package contexts/rootfs tests what depends on the driver.
func TestOnOverlays(t *testing.T) {
	t.Parallel()
	overlaytest.Run(t, "^Test(ExportAndImportKeepATree|ImportIntoADirectoryThatExists|EveryChangeAnswersTheEtagThatStatAnswers|EditFileReplacesTheFileALinkLeadsTo|"+
		"ReadsAndWritesAtPositions|WriteFileKeepsTheInodeAndCuts|NewFilesTakeTheUmask|NamesThatAreNotUTF8|ReaddirRecursive|Cp|RmCounts|AtomicHandles|SessionWatchAndCancel)$")
}
