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
	"strings"
)

// hostTokenPrefix tells a host token from a panel's, for people and for secret scanners.
const hostTokenPrefix = "ctxfs_host_"

// hostToken is the hash of the host's token: comparing hashes takes the same time
// wherever the difference is.
type hostToken [sha256.Size]byte

func (h hostToken) matches(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(h[:], sum[:]) == 1
}

// loadHostToken reads the token, making it at the first start.
func loadHostToken(path string) (hostToken, error) {
	token, err := readHostToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		token, err = makeHostToken(path)
	}
	if err != nil {
		return hostToken{}, err
	}
	return sha256.Sum256([]byte(token)), nil
}

func readHostToken(path string) (string, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() || tooOpen(st) {
		return "", fmt.Errorf("%s can be read by others (mode %04o): remove it, and a new token is made at the next start", path, st.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the host token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 32 {
		return "", fmt.Errorf("%s is damaged: remove it, and a new token is made at the next start", path)
	}
	return token, nil
}

func makeHostToken(path string) (string, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return "", fmt.Errorf("make the host token: %w", err)
	}
	token := hostTokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	return token, writeFileAtomic(path, []byte(token+"\n"), 0o600)
}
