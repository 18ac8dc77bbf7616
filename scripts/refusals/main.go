// Refusals prints, as JSON, what the server says to callers that it refuses, and the names of its API that its clients must not repeat. Run it in
// the root of the repository; the tests of the npm client do.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/refusals"
)

func main() {
	texts, err := refusals.Texts(".")
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(map[string]any{"texts": texts, "names": refusals.Names(), "reasons": fserrpb.Reasons()})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "refusals:", err)
		os.Exit(1)
	}
}
