package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// found returns the lines of a file that are refused.
func found(t *testing.T, files map[string]string) string {
	t.Helper()
	var names, lines []string
	for name := range files {
		names = append(names, name)
	}
	all, err := check(names, func(name string) ([]byte, error) {
		if text := files[name]; text != "" {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		lines = append(lines, fmt.Sprint(f.line))
	}
	return strings.Join(lines, " ")
}

func TestGoTests(t *testing.T) {
	// The code begins in line 2.
	for code, want := range map[string]string{
		"time.Sleep(d)":                                                 "2",
		"if time.Since(begun) > time.Minute { }":                        "2",
		"_ = time.Until(end)":                                           "2",
		"for range time.Tick(time.Second) { }":                          "2",
		"<-time.After(d)":                                               "2",
		"_ = time.Now().Sub(begun)":                                     "2",
		"_ = end.Before(time.Now())":                                    "2",
		"_ = later().After(time.Now().Add(d))":                          "2",
		"begun := time.Now()\n_ = end.Sub(begun)":                       "3",
		"begun := time.Now()\n_ = x < begun.UnixNano()":                 "3",
		"_ = time.Now().UnixNano() > x":                                 "2",
		"select { case <-time.After(20 * time.Second): }":               "2",
		"_ = time.NewTimer(time.Second)":                                "2",
		"_, _ = context.WithTimeout(ctx, 5*time.Second)":                "2",
		"_, _ = context.WithTimeoutCause(ctx, time.Second/2, err)":      "2",
		"_, _ = context.WithDeadline(ctx, time.Now().Add(time.Second))": "2",
		"_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))":    "2",
		"_, _ = net.DialTimeout(network, address, time.Second)":         "2",
		"_, _ = context.WithTimeout(ctx, short)":                        "2",
		"synctest.Test(t, f); time.Sleep(d)":                            "2",

		"_, _ = context.WithTimeout(ctx, time.Minute)":                  "",
		"_, _ = context.WithTimeout(ctx, -time.Second)":                 "",
		"_, _ = context.WithTimeout(ctx, d)":                            "",
		"_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))":         "",
		"now := func() time.Time { return time.Now().Add(d) }; _ = now": "",
		"_ = stored.Before(taken)":                                      "",
		"synctest.Test(t, func(t *testing.T) { time.Sleep(d); f(t) })":  "",

		"time.Sleep(d) // clock: a reason":                         "",
		"// clock: a reason\ntime.Sleep(d)":                        "",
		"// clock: a reason\nf := func() {\ntime.Sleep(d)\n}; f()": "",
		"// clock: a reason\ntime.Sleep(d)\ntime.Sleep(d)":         "4",
		"time.Sleep(d) // clock:":                                  "2",
		"f() // clock: a reason":                                   "2",
		"f(`// clock: no comment`); time.Sleep(d)":                 "2",
	} {
		file := "package p; const short = 10 * time.Second; func TestOf(t *testing.T) {\n" + code + "\n}\n"
		if got := found(t, map[string]string{"p/a_test.go": file}); got != want {
			t.Errorf("%s\nlines %q are refused, want %q", code, got, want)
		}
	}
}

// TestHelpersOfBubbles has a function that sleeps, and another one that calls it.
func TestHelpersOfBubbles(t *testing.T) {
	helpers := "package p\nfunc (w *world) helper() {\ntime.Sleep(d)\n}\nfunc caller() { w.helper() }\n"
	for body, want := range map[string]string{
		"caller()": "3",
		"":         "3",
		"synctest.Test(t, func(t *testing.T) { caller() })":             "",
		"synctest.Test(t, caller)":                                      "",
		"synctest.Test(t, func(t *testing.T) { caller() }); w.helper()": "3",
	} {
		files := map[string]string{"p/a_test.go": helpers, "p/b_test.go": "package p; func TestOf(t *testing.T) { " + body + " }"}
		if got := found(t, files); got != want {
			t.Errorf("called as %s: lines %q are refused, want %q", body, got, want)
		}
	}
	if got := found(t, map[string]string{"p/a_test.go": helpers + "func BenchmarkOf(b *testing.B) { time.Sleep(d); caller() }"}); got != "" {
		t.Errorf("in a benchmark, lines %q are refused", got)
	}
}

func TestScripts(t *testing.T) {
	for code, want := range map[string]string{
		"while (Date.now() < end) await call();":                      "1",
		"const begun = performance.now();":                            "1",
		"await new Promise((done) => { setTimeout(done, 50); });":     "1",
		`import { setTimeout as pause } from "node:timers/promises";`: "1",
		"await page.waitForTimeout(100);":                             "1",
		"await expect.poll(f, { timeout: 5000 }).toBe(1);":            "1",
		"fs.watch(path, { signal: AbortSignal.timeout(20_000) });":    "1",
		"await pages.openHub(site, { timeoutMs: 3000 });":             "1",
		"testTimeout: 30_000,":                                        "1",

		"await expect.poll(f, { timeout: 60_000 }).toBe(1);":  "",
		"AbortSignal.timeout(2 * life);":                      "",
		"use({ timeout: 0 });":                                "",
		"f(); // not Date.now()":                              "",
		"// clock: a reason\nawait page.waitForTimeout(100);": "",
		"await page.waitForTimeout(100); // clock: a reason":  "",
		"await page.waitForTimeout(100); // clock:":           "1",
		"f(); // clock: a reason":                             "1",
		"const url = `http://host`; const now = Date.now();":  "1",
	} {
		for _, name := range []string{"client/ts/test/browser/a.test.ts", "console/web/src/run/a.test.ts", "client/ts/vitest.config.ts"} {
			if got := found(t, map[string]string{name: code}); got != want {
				t.Errorf("%s: %s\nlines %q are refused, want %q", name, code, got, want)
			}
		}
	}
	for name, code := range map[string]string{"client/ts/src/index.ts": "Date.now()", "a.go": "time.Sleep(d)", "removed_test.go": ""} {
		if got := found(t, map[string]string{name: code}); got != "" {
			t.Errorf("%s: lines %q are refused", name, got)
		}
	}
}
