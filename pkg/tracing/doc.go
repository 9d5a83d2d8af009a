// Package tracing records the way of each set of a source as an OpenTelemetry trace: one span from
// the event at the source to the last write to a subscriber, with a span for each step. It
// exports them over gRPC (OTLP).
//
// An endpoint that does not answer costs the spans, and nothing else: nothing waits for it.
//
// kubelet: KubeletConfiguration.tracing, k8s.io/component-base/tracing.
package tracing
