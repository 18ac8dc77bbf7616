package attack

import (
	"encoding/json"
	"strings"
)

// operatorLines are the log's messages that may name a folder of the server, each with its
// reason. No other line may, and none may carry outside content.
var operatorLines = map[string]string{
	"serving": "tells the operator what is served and where, before any panel has asked for anything",
}

// checkLog looks into what was logged since it was asked last.
func (w *world) checkLog(what string) {
	for _, line := range w.log.take() {
		for needle, is := range w.needles {
			if strings.Contains(line, needle) && (needle != w.base || operatorLines[messageOf(line)] == "") {
				w.leak("%s: the log carries %s: %.300s", what, is, line)
			}
		}
	}
}

// messageOf is what a line of the log is about; of one that is no JSON, nothing.
func messageOf(line string) string {
	var l struct {
		Msg string `json:"msg"`
	}
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		return ""
	}
	return l.Msg
}
