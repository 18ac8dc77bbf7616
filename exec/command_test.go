package exec

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestCommandInJSON has a command whose JSON is that of earlier versions, and one with bytes that JSON's text cannot have.
func TestCommandInJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command Command
		json    string
	}{
		"text":  {Command{Argv: []string{"cat", "é"}, Cwd: "d", Identity: Identity{Name: "n"}}, `{"Argv":["cat","é"],"Cwd":"d","Name":"n"}`},
		"bytes": {Command{Argv: []string{"cat", "caf\xe9"}, Cwd: "d\xe9"}, `{"RawArgv":["Y2F0","Y2Fm6Q=="],"RawCwd":"ZOk="}`},
	} {
		data, err := json.Marshal(&c.command)
		if err != nil || string(data) != c.json {
			t.Errorf("%s: %s, %v; want %s", name, data, err, c.json)
		}
		var got Command
		if err := json.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, c.command) {
			t.Errorf("%s came back as %+v, %v", name, got, err)
		}
	}
}
