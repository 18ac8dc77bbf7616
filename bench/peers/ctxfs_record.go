package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// record is what of the server's server.json is needed: the unix socket, and all addresses,
// the socket's first.
type record struct {
	Socket    string   `json:"socket"`
	Addresses []string `json:"addresses"`
	HTTP      string   `json:"http"`
	TokenFile string   `json:"token_file"`
}

func readRecord(workspace string) (*record, error) {
	path := filepath.Join(workspace, ".contexts", ".ctxfs", "server.json")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the server's addresses: %w", err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(r.Addresses) < 2 {
		return nil, fmt.Errorf("%s names no TCP address", path)
	}
	return &r, nil
}

func readable(path string) error {
	_, err := os.Stat(path)
	return err
}
