package seed

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// withoutFilters returns the environment by which git runs none of the programs that the configuration names as filters
// (gitattributes(5)): status would, to compare a file whose times have changed. Such a file then counts as
// changed when its filter changes it.
func withoutFilters(ctx context.Context, dir string) ([]string, error) {
	out, err := git(ctx, dir, gitStatusTimeout, "config", "-z", "--name-only", "--get-regexp", `^filter\..*\.(clean|process|required)$`)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil, nil // there are none
	}
	if err != nil {
		return nil, err
	}
	var env []string
	n := 0
	for key := range strings.SplitSeq(string(out), "\x00") {
		if key == "" {
			continue
		}
		value := ""
		if strings.HasSuffix(key, ".required") {
			value = "false"
		}
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n)), nil
}
