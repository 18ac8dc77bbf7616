package server

import (
	"context"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// metrics has what /metrics returns. No label names a panel or a context, whose number has no bound.
type metrics struct {
	registry *prometheus.Registry
	inFlight prometheus.Gauge
	duration *prometheus.HistogramVec
	// outcomes caches duration's histograms.
	outcomes sync.Map
	errors   *prometheus.CounterVec
	seeding  *prometheus.HistogramVec
	limits   *prometheus.CounterVec
	// connRefused counts the connections that were closed before an authenticated call.
	connRefused *prometheus.CounterVec
	// waits counts waits for a limit.
	waits *prometheus.CounterVec
	// gcRuns counts collections, gcRemoved and gcBytes what they removed by kind, gcKept the reasons for which they kept contexts that a rule
	// selected.
	gcRuns, gcRemoved, gcBytes, gcKept *prometheus.CounterVec
	gcDuration                         prometheus.Histogram
	// auditErrors counts lines that were not written.
	auditErrors prometheus.Counter
}

// durationBuckets go from a cached stat to a long copy, in seconds.
var durationBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30}

func newMetrics(version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ctxfs_in_flight", Help: "Calls that run now, streams included."}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ctxfs_rpc_duration_seconds", Help: "How long calls took.", Buckets: durationBuckets,
		}, []string{"method", "code", "transport"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ctxfs_errors_total", Help: "Failed calls by errno, or by the reason of a refusal.",
		}, []string{"method", "errno"}),
		seeding: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ctxfs_seed_duration_seconds", Help: "How long seedings took.", Buckets: prometheus.ExponentialBuckets(0.01, 2.5, 12),
		}, []string{"driver", "result"}),
		limits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ctxfs_limit_rejections_total", Help: "Calls that a limit refused.",
		}, []string{"limit"}),
		connRefused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ctxfs_connections_refused_total", Help: "Connections that were refused or closed for want of an authenticated call.",
		}, []string{"listener", "reason"}),
		waits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ctxfs_limit_waits_total", Help: "Requests and replies that waited for memory.",
		}, []string{"limit"}),
		gcRuns:    counterVec("ctxfs_gc_runs_total", "Collections of garbage, by what began them and how they ended.", "trigger", "result"),
		gcRemoved: counterVec("ctxfs_gc_removed_total", "What collections removed.", "kind"),
		gcBytes:   counterVec("ctxfs_gc_removed_bytes_total", "The space on disk of what collections removed.", "kind"),
		gcKept:    counterVec("ctxfs_gc_kept_total", "Reasons for which collections kept contexts that a rule selected.", "reason"),
		gcDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ctxfs_gc_duration_seconds", Help: "How long collections of garbage took.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 9),
		}),
		auditErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ctxfs_audit_errors_total", Help: "Changes that the audit log could not take.",
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ctxfs_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m.inFlight, m.duration, m.errors, m.seeding, m.limits, m.waits, m.connRefused, m.auditErrors, build,
		m.gcRuns, m.gcRemoved, m.gcBytes, m.gcKept, m.gcDuration)
	return m
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// gauge registers a value that is read at every scrape. A scrape omits it when ok is false.
func (m *metrics) gauge(name, help string, value func() (v float64, ok bool)) {
	m.registry.MustRegister(&asked{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.GaugeValue, value: value})
}

// counter is gauge for a value that only rises.
func (m *metrics) counter(name, help string, value func() (v float64, ok bool)) {
	m.registry.MustRegister(&asked{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.CounterValue, value: value})
}

// connections registers the count of a listener's open connections.
func (m *metrics) connections(listener string, count func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ctxfs_connections", Help: "Open connections.", ConstLabels: prometheus.Labels{"listener": listener},
	}, func() float64 { return float64(count()) }))
}

type asked struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func() (float64, bool)
}

// Describe implements prometheus.Collector.
func (a *asked) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

// Collect implements prometheus.Collector.
func (a *asked) Collect(ch chan<- prometheus.Metric) {
	if v, ok := a.value(); ok {
		ch <- prometheus.MustNewConstMetric(a.desc, a.kind, v)
	}
}

// outcome has the labels of a duration.
type outcome struct {
	method, transport string
	code              codes.Code
}

// observer returns an outcome's histogram. The vector's own look-up takes three times as long.
func (m *metrics) observer(o outcome) prometheus.Observer {
	if h, ok := m.outcomes.Load(o); ok {
		return h.(prometheus.Observer) //nolint:forcetypeassert // nothing else is in it
	}
	h := m.duration.WithLabelValues(o.method, o.code.String(), o.transport)
	m.outcomes.Store(o, h)
	return h
}

// observe records a call that ended with err.
func (m *metrics) observe(c *call, err error, took time.Duration) {
	m.observer(outcome{c.method.Name, c.transport, fserrpb.CodeOf(err)}).Observe(took.Seconds())
	if err == nil {
		return
	}
	reason := fserrpb.ReasonOf(err)
	if reason == "" {
		return
	}
	m.errors.WithLabelValues(c.method.Name, reason).Inc()
	if limit := limitOf(c.method, reason); limit != "" {
		m.rejected(limit)
	}
}

// limitOf names the limit that an errno stands for. EFBIG of a request is counted where it is refused (interceptors.tooLarge), since the
// method does not show whether a request or a reply was too large. A session's own EFBIG is of a message that it received.
func limitOf(m *method.Method, errno string) string {
	switch code, _ := fserr.ParseCode(errno); code {
	case fserr.EMFILE:
		if m.Limit() != ctxfsv1.Limit_LIMIT_UNSPECIFIED {
			return "" // counted where it is refused
		}
		return "handles"
	case fserr.EDQUOT:
		return "context_size"
	case fserr.EFBIG:
		switch {
		case m.Limit() == ctxfsv1.Limit_LIMIT_SESSIONS:
			return "request_bytes"
		case m.Callers() == ctxfsv1.Callers_CALLERS_HOST:
			return "seed_size"
		case m.Effect() == ctxfsv1.Effect_EFFECT_READS:
			return "reply_bytes"
		}
	case fserr.ENOSPC:
		return "disk"
	}
	return ""
}

func (m *metrics) rejected(limit string) { m.limits.WithLabelValues(limit).Inc() }

// seeded records a seeding.
func (m *metrics) seeded(driver string, took time.Duration, ok bool) {
	result := "ok"
	if !ok {
		result = "failed"
	}
	m.seeding.WithLabelValues(driver, result).Observe(took.Seconds())
}

// tracing sends traces. It is nil when no endpoint is configured, and then costs calls nothing.
type tracing struct{ provider *sdktrace.TracerProvider }

func (s *Server) startTraces(ctx context.Context) error {
	if s.cfg.OTLPEndpoint == "" {
		return nil
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(s.cfg.OTLPEndpoint))
	if err != nil {
		return &ConfigError{Key: "otlp_endpoint", Problem: err.Error()}
	}
	s.tracing = &tracing{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "ctxfs"), attribute.String("service.version", s.deps.Version))))}
	return nil
}

func (t *tracing) option() grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider), otelgrpc.WithPropagators(propagation.TraceContext{})))
}

// stop sends the traces that are left.
func (t *tracing) stop(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// NewLogger returns a logger of Config's level and format that writes to w. The
// format "auto" is text when w is a terminal, else JSON.
func NewLogger(cfg Config, w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(cfg.LogLevel)
	if err != nil {
		return nil, &ConfigError{Key: "log_level", Problem: err.Error()}
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if f, ok := w.(*os.File); cfg.LogFormat == "text" || cfg.LogFormat == "auto" && ok && term.IsTerminal(int(f.Fd())) {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level)), nil
}
