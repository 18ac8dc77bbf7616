//go:build ignore

// Crosscheck type-checks the module and all that it imports, tests included, for each operating system that it is
// given, and fails when one does not compile. It reads sources instead of building packages: from an empty build cache it needs
// 20 s of processor time for two systems, go vet 250 s.
//
//	go run -modfile=tools/go.mod scripts/crosscheck.go darwin windows
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, system := range os.Args[1:] {
		found, err := packages.Load(&packages.Config{
			Mode: packages.LoadAllSyntax, Tests: true, Env: append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0"),
		}, "./...")
		if err != nil {
			fmt.Fprintf(os.Stderr, "crosscheck: %s: %v\n", system, err)
			os.Exit(1)
		}
		if n := packages.PrintErrors(found); n > 0 {
			fmt.Fprintf(os.Stderr, "crosscheck: %d errors for %s\n", n, system)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}
