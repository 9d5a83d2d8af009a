package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver"
)

// answerKey is the key of the answer in the context of a request. The pipeline passes the
// context on.
type answerKey struct{}

// questions sends the query of each request through the pipeline, as the attributes of a
// resource.
type questions struct {
	Endpoint string `mapstructure:"endpoint"`
	next     consumer.Logs
	server   *http.Server
}

func questionsFactory() receiver.Factory {
	create := func(_ context.Context, _ receiver.Settings, config component.Config, next consumer.Logs) (receiver.Logs, error) {
		q := config.(*questions)
		q.next = next
		return q, nil
	}
	return receiver.NewFactory(component.MustNewType("questions"), func() component.Config { return new(questions) },
		receiver.WithLogs(create, component.StabilityLevelDevelopment))
}

func (q *questions) Start(ctx context.Context, _ component.Host) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", q.Endpoint)
	if err != nil {
		return err
	}
	q.server = &http.Server{Handler: q}
	go q.server.Serve(l)
	return nil
}

func (q *questions) Shutdown(ctx context.Context) error {
	if q.server == nil {
		return nil
	}
	return q.server.Shutdown(ctx)
}

func (q *questions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	for name, values := range r.URL.Query() {
		resource.Resource().Attributes().PutStr(name, values[0])
	}
	resource.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("question")
	answer := make(map[string]any)
	if err := q.next.ConsumeLogs(context.WithValue(r.Context(), answerKey{}, answer), logs); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// answers is an exporter that returns the attributes of the resource.
type answers struct {
	component.StartFunc
	component.ShutdownFunc
}

func answersFactory() exporter.Factory {
	create := func(context.Context, exporter.Settings, component.Config) (exporter.Logs, error) {
		return answers{}, nil
	}
	return exporter.NewFactory(component.MustNewType("answers"), func() component.Config { return new(struct{}) },
		exporter.WithLogs(create, component.StabilityLevelDevelopment))
}

func (answers) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (answers) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	answer, ok := ctx.Value(answerKey{}).(map[string]any)
	if !ok || logs.ResourceLogs().Len() != 1 {
		return errors.New("not the answer to a question")
	}
	for name, value := range logs.ResourceLogs().At(0).Resource().Attributes().All() {
		answer[name] = value.AsRaw()
	}
	return nil
}
