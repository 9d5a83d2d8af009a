// Package tracing records the path of each set of a source as an OpenTelemetry trace, and exports the traces over gRPC (OTLP):
//
//	t := tracing.New(tracing.Options{Endpoint: "localhost:4317", SamplingRatePerMillion: 1000000})
//	go t.Run(ctx)
//	trace := t.Trace("file", event)
//
// A trace is one span, from the event at the source to the last write to a subscriber, with a span for each step. Nothing
// waits for the endpoint. If it does not answer, the spans are lost.
//
// kubelet: KubeletConfiguration.tracing, k8s.io/component-base/tracing.
package tracing
