package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/observer"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
)

// endpoints is an extension that prints all endpoints of the observer after each change, as
// a JSON list in one line.
type endpoints struct {
	mu    sync.Mutex
	known map[observer.EndpointID]observer.Endpoint
	from  observer.Observable
}

func endpointsFactory() extension.Factory {
	create := func(context.Context, extension.Settings, component.Config) (extension.Extension, error) {
		return &endpoints{known: make(map[observer.EndpointID]observer.Endpoint)}, nil
	}
	return extension.NewFactory(component.MustNewType("endpoints"), func() component.Config { return new(struct{}) }, create, component.StabilityLevelDevelopment)
}

// Start subscribes to the only observer.
func (e *endpoints) Start(_ context.Context, host component.Host) error {
	for _, other := range host.GetExtensions() {
		if from, ok := other.(observer.Observable); ok {
			e.from = from
			from.ListAndWatch(e)
			return nil
		}
	}
	return fmt.Errorf("endpoints: there is no observer")
}

func (e *endpoints) Shutdown(context.Context) error {
	if e.from != nil {
		e.from.Unsubscribe(e)
	}
	return nil
}

func (e *endpoints) ID() observer.NotifyID { return "endpoints" }

func (e *endpoints) OnAdd(added []observer.Endpoint) { e.change(added, nil) }

func (e *endpoints) OnChange(changed []observer.Endpoint) { e.change(changed, nil) }

func (e *endpoints) OnRemove(removed []observer.Endpoint) { e.change(nil, removed) }

func (e *endpoints) change(present, gone []observer.Endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, endpoint := range gone {
		delete(e.known, endpoint.ID)
	}
	for _, endpoint := range present {
		e.known[endpoint.ID] = endpoint
	}
	all := make([]map[string]any, 0, len(e.known))
	for _, endpoint := range e.known {
		if env, err := endpoint.Env(); err == nil {
			all = append(all, env)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(all)
}
