package server

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestExampleConfigurationShowsTheDefaults removes the comment marks before all settings.
func TestExampleConfigurationShowsTheDefaults(t *testing.T) {
	t.Parallel()
	example := readDeploy(t, "ctxfs.yaml")
	if _, _, err := load(t, nil, nil, example); err != nil {
		t.Errorf("as installed: %v", err)
	}
	setting := regexp.MustCompile(`(?m)^# ([a-z_]+: .*)$`)
	cfg, origins, err := load(t, nil, nil, setting.ReplaceAllString(example, "$1"))
	if err != nil {
		t.Fatal(err)
	}
	empty := cmp.Transformer("empty", func(list []string) string { return strings.Join(list, ",") })
	if d := cmp.Diff(DefaultConfig(), cfg, empty); d != "" {
		t.Errorf("it shows other values than the defaults:\n%s", d)
	}
	for key, origin := range origins {
		if origin == "default" {
			t.Errorf("it lacks %s", key)
		}
	}
}

// labelsOf returns the labels of each series that the server exports, by the names that queries use.
func labelsOf(t *testing.T) map[string][]string {
	t.Helper()
	cfg := testConfig(t)
	cfg.HTTP = "127.0.0.1:0"
	r := start(t, cfg)
	descs := make(chan *prometheus.Desc)
	go func() {
		r.metrics.registry.Describe(descs)
		close(descs)
	}()
	form := regexp.MustCompile(`fqName: "([a-z_]+)".*constLabels: \{(.*)\}, variableLabels: \{(.*)\}`)
	name := regexp.MustCompile(`([a-z_]+)(?:="[^"]*")?`)
	series := map[string][]string{"up": {"job", "instance"}}
	for d := range descs {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%s is not understood", d)
		}
		labels := []string{"job", "instance"} // which Prometheus adds
		for _, l := range name.FindAllStringSubmatch(m[2]+","+m[3], -1) {
			labels = append(labels, l[1])
		}
		series[m[1]] = labels
		if strings.HasSuffix(m[1], "_seconds") {
			series[m[1]+"_count"], series[m[1]+"_sum"], series[m[1]+"_bucket"] = labels, labels, append(slices.Clone(labels), "le")
		}
	}
	return series
}

// TestDashboardAndAlertsNameRealMetrics looks up each series, and each label that its query mentions.
func TestDashboardAndAlertsNameRealMetrics(t *testing.T) {
	t.Parallel()
	series := labelsOf(t)
	query := regexp.MustCompile(`(?m)(?:"expr": "((?:[^"\\]|\\.)*)"|^ +expr: (.*)$)`)
	metric := regexp.MustCompile(`\b(ctxfs_[a-z_]+|up)\b`)
	label := regexp.MustCompile(`\b([a-z_]+) *=~?\\?"|by \(([a-z_, ]+)\)`)
	for _, file := range []string{"grafana.json", "alerts.yaml"} {
		queries := query.FindAllStringSubmatch(readDeploy(t, file), -1)
		if len(queries) < 5 {
			t.Errorf("%s: %d queries found", file, len(queries))
		}
		for _, q := range queries {
			text := q[1] + q[2]
			var known []string
			for _, name := range metric.FindAllString(text, -1) {
				labels, ok := series[name]
				if !ok {
					t.Errorf("%s: no metric %s in %s", file, name, text)
				}
				known = append(known, labels...)
			}
			for _, m := range label.FindAllStringSubmatch(text, -1) {
				for name := range strings.SplitSeq(m[1]+m[2], ",") {
					if name = strings.TrimSpace(name); !slices.Contains(known, name) {
						t.Errorf("%s: no label %s in %s", file, name, text)
					}
				}
			}
		}
	}
	shown := readDeploy(t, "grafana.json")
	for name := range series {
		if strings.HasPrefix(name, "ctxfs_") && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_seconds") && !strings.Contains(shown, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}
