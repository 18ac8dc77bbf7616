package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// The prefixes distinguish the server's own tokens from a panel's, for people and for secret scanners.
const (
	hostTokenPrefix    = "ctxfs_host_"
	metricsTokenPrefix = "ctxfs_metrics_"
)

// tokenHash is the hash of a token in a file: comparing hashes takes the same time wherever the difference is. No token matches
// the zero tokenHash.
type tokenHash [sha256.Size]byte

func (h tokenHash) matches(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(h[:], sum[:]) == 1
}

// loadTokens reads the host token and the metrics token, and creates those that are missing.
func (s *Server) loadTokens() (host, metrics tokenHash, err error) {
	host, err = loadTokenFile(s.claim.layout.HostToken, hostTokenPrefix, 0)
	if err != nil || s.cfg.HTTP == "" || !s.cfg.Metrics {
		return host, metrics, err
	}
	path := s.cfg.MetricsTokenFile
	if path == "" {
		path = filepath.Join(s.claim.layout.State, "metrics.token")
	}
	// The group may read it: the program that scrapes has another user than the server.
	metrics, err = loadTokenFile(path, metricsTokenPrefix, 0o040)
	if isFull(err) {
		s.warn("the metrics token has no room on the full disk: /metrics takes the host token only")
		err = nil
	}
	return host, metrics, err
}

// loadTokenFile reads a token, and creates the file if it is missing. Besides the owner only those with a permission in allowed may
// have any.
func loadTokenFile(path, prefix string, allowed fs.FileMode) (tokenHash, error) {
	token, err := readTokenFile(path, allowed)
	if errors.Is(err, fs.ErrNotExist) {
		token, err = createTokenFile(path, prefix)
	}
	if err != nil {
		return tokenHash{}, err
	}
	return sha256.Sum256([]byte(token)), nil
}

func readTokenFile(path string, allowed fs.FileMode) (string, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if st.Mode().IsRegular() && tooOpen(st, allowed) {
		return "", fmt.Errorf("%s is open to others (mode %04o): remove it, and the next start creates a new token", path, st.Mode().Perm())
	}
	data, err := statedir.ReadFile(path, statedir.MaxRecord)
	if err != nil {
		return "", fmt.Errorf("read a token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 32 {
		return "", fmt.Errorf("%s is damaged: remove it, and the next start creates a new token", path)
	}
	return token, nil
}

func createTokenFile(path, prefix string) (string, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return "", fmt.Errorf("create a token: %w", err)
	}
	token := prefix + base64.RawURLEncoding.EncodeToString(secret)
	return token, durable.WriteFile(path, []byte(token+"\n"), 0o600)
}
