package server

import (
	"context"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc"
)

// tracing sends traces; nil when no endpoint is configured, and calls then pay nothing for it.
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

// stop sends what is left.
func (t *tracing) stop(ctx context.Context) error { return t.provider.Shutdown(ctx) }
