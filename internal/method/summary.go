package method

import (
	"strings"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Summary returns the properties of a method in a line for people: "for panels and hosts; reads; short".
func (m *Method) Summary() string {
	callers := map[ctxfsv1.Callers]string{
		ctxfsv1.Callers_CALLERS_HOST:     "for hosts",
		ctxfsv1.Callers_CALLERS_PANEL:    "for panels and hosts",
		ctxfsv1.Callers_CALLERS_REVIEWER: "for hosts that act for no panel",
		ctxfsv1.Callers_CALLERS_EXEC:     "for hosts, and for panels with the right to run commands",
		ctxfsv1.Callers_CALLERS_PUSH:     "for hosts, and for panels with the right to push",
	}
	durations := map[ctxfsv1.Duration]string{
		ctxfsv1.Duration_DURATION_SHORT:      "short",
		ctxfsv1.Duration_DURATION_UNBOUNDED:  "no default deadline",
		ctxfsv1.Duration_DURATION_OPEN_ENDED: "lasts until one side ends it",
	}
	parts := []string{callers[m.Callers()], "may change something"}
	switch {
	case m.Reads():
		parts[1] = "reads"
	case m.options.GetEffect() == ctxfsv1.Effect_EFFECT_READS:
		parts[1] = "reads, or changes with " + strings.Join(m.options.GetChangesWith(), ", ")
	}
	if parts[0] == "" {
		parts[0] = "for no caller"
	}
	if d := durations[m.options.GetDuration()]; d != "" {
		parts = append(parts, d)
	} else {
		parts = append(parts, "ends after 30 s without a deadline")
	}
	switch {
	case m.Desc.IsStreamingClient() && m.Desc.IsStreamingServer():
		parts = append(parts, "requests and replies are streams")
	case m.Desc.IsStreamingClient():
		parts = append(parts, "requests are a stream")
	case m.Desc.IsStreamingServer():
		parts = append(parts, "replies are a stream")
	}
	if m.Console() {
		parts = append(parts, "for consoles too")
	}
	return strings.Join(parts, "; ")
}
