package attack

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(siegeEnv) != "":
		exit("server", serveSiege())
	case os.Getenv(hostileEnv) != "":
		exit("hostile client", beHostile())
	}
	goleak.VerifyTestMain(m)
}

func exit(who string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", who, err)
		os.Exit(1)
	}
	os.Exit(0)
}
