//go:build linux

package main

import (
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/grpclog"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/logsink"
)

// startLogging makes the daemon log to the sink. So a blocked or broken stderr neither
// blocks nor ends the daemon.
func startLogging(sink *logsink.Sink, config *logsapi.LoggingConfiguration, gates featuregate.FeatureGate) error {
	// A write to a broken stderr raises SIGPIPE, which would end the process. A handler, unlike
	// an ignored signal, is not inherited by the credential plugins that the daemon starts.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log.SetOutput(sink)
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, sink))
	return logsapi.ValidateAndApplyWithOptions(config, &logsapi.LoggingOptions{ErrorStream: sink, InfoStream: sink}, gates)
}

// reportDropped logs the number of dropped lines.
func reportDropped(lines int64) {
	klog.Background().Info("Log lines were dropped because stderr was not read", "lines", lines)
}

// droppedLines is the metric of dropped log lines.
func droppedLines(sink *logsink.Sink) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "podconfigd", Subsystem: "log", Name: "dropped_lines_total",
		Help: "Log lines that were dropped because stderr was not read or is broken.",
	}, func() float64 { return float64(sink.Dropped()) })
}
