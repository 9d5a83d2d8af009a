package soak

import (
	"context"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/podconfigd/podconfigd/test/soak/history"
)

// reflector is the Reflector of client-go, which every informer has. It writes into a store
// that records what it is given.
type reflector struct {
	*subscriber

	contentType string
}

func (s reflector) run(ctx context.Context) {
	client, err := clientgo.NewForConfig(&rest.Config{
		Host: "http://localhost", QPS: -1, Dial: s.cutter.dial,
		ContentConfig: rest.ContentConfig{ContentType: s.contentType, AcceptContentTypes: s.contentType},
	})
	if err != nil {
		s.t.Error(err)
		return
	}
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.Everything())
	s.connect()
	cache.NewReflectorWithOptions(pods, &v1.Pod{}, &recordingStore{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), of: s.subscriber, ctx: ctx},
		cache.ReflectorOptions{
			// As a rule it waits up to 30 s after a failure.
			Backoff: &wait.Backoff{Duration: retry, Factor: 1, Steps: 1},
		}).RunWithContext(ctx)
}

// recordingStore records the changes, and keeps the pods for the Reflector.
type recordingStore struct {
	cache.Store

	of  *subscriber
	ctx context.Context // the methods are those of a store
}

func (r *recordingStore) record(op, revision string, pods ...any) error {
	m := &history.Message{Op: op}
	for _, item := range pods {
		p, ok := item.(*v1.Pod)
		if !ok {
			return fmt.Errorf("it is a %T", item)
		}
		m.Pods = append(m.Pods, recordOf(p))
		if revision == "" {
			revision = p.ResourceVersion
		}
	}
	var err error
	if m.Revision, err = strconv.ParseInt(revision, 10, 64); err != nil {
		r.of.t.Errorf("%s: %s %v: %v", r.of.history.Subscriber, op, m.Pods, err)
		return err
	}
	r.of.take(r.ctx, m)
	return nil
}

func (r *recordingStore) Add(item any) error {
	if err := r.record(history.Add, "", item); err != nil {
		return err
	}
	return r.Store.Add(item)
}

func (r *recordingStore) Update(item any) error {
	if err := r.record(history.Update, "", item); err != nil {
		return err
	}
	return r.Store.Update(item)
}

func (r *recordingStore) Delete(item any) error {
	if err := r.record(history.Remove, "", item); err != nil {
		return err
	}
	return r.Store.Delete(item)
}

func (r *recordingStore) Replace(items []any, revision string) error {
	if err := r.record(history.List, revision, items...); err != nil {
		return err
	}
	return r.Store.Replace(items, revision)
}

// UpdateResourceVersion is called with each event, too.
func (r *recordingStore) UpdateResourceVersion(revision string) {
	if revision != strconv.FormatInt(r.of.since, 10) {
		_ = r.record(history.Bookmark, revision) // reported
	}
}

func recordOf(p *v1.Pod) history.Pod {
	return history.Pod{
		Source: p.Annotations["kubernetes.io/config.source"], Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Version: p.Labels["version"], Tier: p.Labels["tier"], Status: p.Status.Message, Grace: grace(p.DeletionGracePeriodSeconds),
		Mirror: p.Annotations[v1.MirrorPodAnnotationKey] != "",
	}
}
