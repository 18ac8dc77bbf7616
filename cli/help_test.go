package cli_test

import (
	"strings"
	"testing"
)

func TestHelpExplainsMethods(t *testing.T) {
	s := &shell{t: t, dir: t.TempDir()} // no server runs
	for name, wants := range map[string][]string{
		"readFile":               {"ctxfs.v1.FsService.ReadFile\n", "for panels and hosts; reads", "Errors: ENOENT", "ReadFileRequest\n", "    encoding  (string)\n", "ReadFileResponse\n", "one of content"},
		"PanelService/OpenPanel": {"for hosts; may change something", "OpenPanelResponse\n"},
		"Readdir":                {"\nStat\n", "FILE_TYPE_DIRECTORY: "}, // messages and enums within its own
	} {
		out := s.ok("help", name)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("ctxfs help %s lacks %q:\n%s", name, want, out)
			}
		}
	}
}

func TestHelpStillExplainsCommands(t *testing.T) {
	s := &shell{t: t, dir: t.TempDir()}
	if out := s.ok("help", "panel", "open"); !strings.Contains(out, "ctxfs panel open ID [flags]") {
		t.Errorf("help panel open printed\n%s", out)
	}
	if out := s.ok("help"); !strings.Contains(out, "Files of a context:") {
		t.Errorf("help printed\n%s", out)
	}
	for _, args := range [][]string{{"help", "readfle"}, {"help", "panl", "open"}} {
		code, _, errs := s.run(args...)
		if code != 2 || !strings.Contains(errs, "did you mean ") {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	if _, out, _ := s.run("__complete", "help", "Rea"); !strings.Contains(out, "ReadFile\n") {
		t.Errorf("completing help Rea: %q", out)
	}
}
