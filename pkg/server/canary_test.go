package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A canary is a pod that the rules hide. Everything about it has the word canary.

// canaryRules hide canaries by their labels, their namespace or their source.
func canaryRules() []access.Rule {
	return []access.Rule{
		{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "canary"}), View: access.None},
		{Namespaces: []string{"canary-ns"}, View: access.None},
		{Sources: []string{"http"}, View: access.None},
		{View: access.Full},
	}
}

func canaryPod(version string) *v1.Pod {
	p := podWith("canary-pod", "canary")
	p.Namespace, p.UID = "canary-ns", "canary-uid"
	p.Annotations = map[string]string{"canary": version}
	p.Status = v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.9.9.9", PodIPs: []v1.PodIP{{IP: "10.9.9.9"}}, Message: "canary"}
	return p
}

// canaryRuntime has the containers of the canary, and of a canary that is in no source.
type canaryRuntime struct{ recorded }

func (canaryRuntime) FindContainer(id string) (pleg.Found, bool) {
	uid, ok := map[string]types.UID{strings.Repeat("c", 64): "canary-uid", strings.Repeat("d", 64): "canary-orphan"}[id]
	return pleg.Found{UID: uid, Namespace: "canary-ns", Name: "canary-pod", Container: pleg.Container{ID: id, Name: "canary"}}, ok
}

func (canaryRuntime) FindPod(uid types.UID) (pleg.Found, bool) {
	return pleg.Found{UID: uid, Namespace: "canary-ns", Name: "canary-orphan"}, uid == "canary-orphan"
}

// serveCanaries serves a canary and the pod seen, with everything that a daemon has.
func serveCanaries(t *testing.T, rules []access.Rule) (*daemon, *Server) {
	t.Helper()
	log := newLog(t, store.Options{})
	log.change(config.ADD, "http", "canary-past", "canary")
	log.change(config.UPDATE, "http", "canary-past", "canary-2")
	log.change(config.ADD, "file", "seen", "image")
	log.change(config.REMOVE, "http", "canary-past", "canary-2")
	var l *lookup.Lookup
	var opts Options
	uid := uint32(4294960000)
	d := serveWithLimits(t, journal.Options{Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Status: v1.NodeStatus{
		Images: []v1.ContainerImage{{Names: []string{"canary"}}}, VolumesInUse: []v1.UniqueVolumeName{"canary"},
	}}}, conn.Limits{}, func(o *Options) {
		o.Policy = access.NewPolicy(rules)
		l = lookup.New(lookup.Options{Journal: o.Journal, Runtime: canaryRuntime{}, Owners: ownersInAPI, Devices: devicesOf("canary-uid", "canary")})
		o.Lookup, o.Owners = l, true
		o.Journal.SetOwners(ownersInAPI)
		streamContainers(t, o, "canary-uid", "canary-orphan", "seen")
		j := o.Journal
		o.Status = func() v1alpha1.Status {
			s := j.Status()
			s.Sources[0].LastError = "canary"
			s.Sources[0].File = &v1alpha1.FileStatus{ManifestsOmitted: map[v1alpha1.ManifestState]int{"canary": 1}, Manifests: []v1alpha1.Manifest{
				{Path: "canary.yaml", Namespace: "canary-ns", Name: "canary-pod", UID: "canary-uid", State: "Accepted"},
				{Path: "canary2.yaml", State: "Rejected", Message: "canary"},
				{Path: "seen.yaml", Namespace: "canary-ns", Name: "canary-pod", UID: "seen", State: "Shadowed"},
				{Path: "seen.yaml", Namespace: "default", Name: "seen", UID: "seen", State: "Accepted"},
			}}
			s.Sources[0].HTTP = &v1alpha1.HTTPStatus{Manifests: s.Sources[0].File.Manifests}
			s.Runtime = &v1alpha1.RuntimeStatus{LastError: "canary", EventsError: "canary"}
			s.MirrorPods = &v1alpha1.MirrorStatus{Stopped: &v1alpha1.MirrorStop{Reason: "canary"}, Problems: []v1alpha1.MirrorProblem{
				{Namespace: "canary-ns", Name: "canary-pod", Message: "canary"}, {Namespace: "default", Name: "canary"},
			}}
			s.Owners = &v1alpha1.OwnersStatus{LastError: "canary", Notes: []string{"canary"}}
			s.Devices = &v1alpha1.DevicesStatus{LastError: "canary", Pods: 7654321}
			s.Subscribers = append(s.Subscribers, v1alpha1.Subscriber{UID: &uid, UserAgent: "canary"}, v1alpha1.Subscriber{UserAgent: "canary"})
			return s
		}
		o.Runtime = func() v1alpha1.RuntimePods {
			return v1alpha1.RuntimePods{Pods: []v1alpha1.RuntimePod{
				{UID: "canary-uid", Namespace: "canary-ns", Name: "canary-pod"}, {UID: "canary-orphan", Namespace: "default", Name: "canary-orphan"},
				{UID: "seen", Namespace: "default", Name: "seen", Containers: []v1alpha1.RuntimeContainer{}},
			}}
		}
		o.History = func(h history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
			return history.Read(log.dir, h)
		}
		o.Resync = func(_ context.Context, namespace, name string) error {
			return fmt.Errorf("resyncing %s/%s", namespace, name)
		}
		o.Release = func(context.Context, string, *int) error { return nil }
		opts = *o
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	d.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{canaryPod("1"), podWith("seen", "1")}})
	d.journal.HandlePodOrphans(t.Context(), []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "canary-orphan", UID: "canary-orphan"}}})
	return d, New(Options{Journal: opts.Journal, Gatherer: opts.Gatherer, Runtime: opts.Runtime, Resync: opts.Resync, Release: opts.Release})
}

// disturb changes the canary in every way, and then the pod seen, so that it has the label end.
func (d *daemon) disturb(t *testing.T) {
	t.Helper()
	put := func(op config.PodOperation, pods ...*v1.Pod) {
		d.journal.Append(config.PodUpdate{Op: op, Source: "file", Pods: pods})
	}
	put(config.UPDATE, canaryPod("2"))
	put(config.SYNC, canaryPod("2"))
	d.journal.RecordEvent(canaryPod("2"), &v1alpha1.Event{PodUID: "canary-uid", Type: string(pleg.ContainerDied), ContainerID: "canary"})
	d.journal.HandlePodOrphans(t.Context(), []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "canary-2", UID: "canary-2"}}})
	put(config.DELETE, canaryPod("3"))
	put(config.REMOVE, canaryPod("3"))
	put(config.ADD, canaryPod("1"))
	put(config.UPDATE, podWith("seen", "end"))
	put(config.UPDATE, podWith("seen", "1"))
}

// canaryPaths are the requests of each pattern. A request ends with a stream if it has "stream" in
// front. Those that name the canary are in TestHiddenIsAsAbsent.
var canaryPaths = map[string][]string{
	"/": {"/nothing"},
	"/v1alpha1/updates": {
		"stream/v1alpha1/updates", "stream/v1alpha1/updates?ops=*", "stream/v1alpha1/updates?mode=snapshot", "stream/v1alpha1/updates?mode=snapshot-and-updates&ops=*",
		"stream/v1alpha1/updates?since=1", "stream/v1alpha1/updates?mirrorPods=false", "stream/v1alpha1/updates?ops=*&fields=metadata,spec,status",
	},
	"/v1alpha1/containers": {
		"/v1alpha1/containers", "/v1alpha1/containers?labels=true&owners=true", "stream/v1alpha1/containers?watch=true&labels=true&owners=true",
	},
	"/v1alpha1/status":  {"/v1alpha1/status"},
	"/v1alpha1/runtime": {"/v1alpha1/runtime"},
	"/v1alpha1/history": {"/v1alpha1/history", "/v1alpha1/history?pods=true", "/v1alpha1/history?limit=1"},
	"/v1alpha1/lookup": {
		"/v1alpha1/lookup?podIP=10.9.9.9&pods=true", "/v1alpha1/lookup?containerID=" + strings.Repeat("c", 64), "/v1alpha1/lookup?containerID=" + strings.Repeat("d", 64),
		"/v1alpha1/lookup?pid=1", "/v1alpha1/lookup?podIP=10.9.9.9&wait=1ms", "/v1alpha1/lookup?podUID=edited&pods=true", "/v1alpha1/lookup?cgroup=/kubepods/podx/" + strings.Repeat("c", 64),
		"/v1alpha1/lookup?self=true", "/v1alpha1/lookup?device=example.com/gpu:other", "/v1alpha1/lookup?netns=1", "/v1alpha1/lookup?cgroupID=1", "/v1alpha1/lookup?logPath=default_seen_seen/c/0.log",
	},
	"/pods":                               {"/pods", "/pods?mirrorPods=true", "/pods?fields=metadata,spec,status"},
	"/pods/{$}":                           {"/pods/"},
	"/version":                            {"/version"},
	"/healthz":                            {"/healthz?verbose"},
	"/livez":                              {"/livez?verbose"},
	"/readyz":                             {"/readyz?verbose"},
	"/metrics":                            {"/metrics"},
	"/metrics/devices":                    {"/metrics/devices"},
	"/api":                                {"/api"},
	"/apis":                               {"/apis"},
	"/api/":                               {"/api/x"},
	"/apis/":                              {"/apis/x"},
	"/openapi/":                           {"/openapi/x"},
	"/openapi/v3":                         {"/openapi/v3"},
	"/openapi/v3/api/v1":                  {"/openapi/v3/api/v1"},
	"/api/v1":                             {"/api/v1"},
	"/api/v1/pods":                        {"/api/v1/pods", "stream/api/v1/pods?watch=true", "/api/v1/pods?limit=1", "stream/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"},
	"/api/v1/nodes":                       {"/api/v1/nodes"},
	"/api/v1/nodes/{name}":                {"/api/v1/nodes/node1"},
	"/api/v1/namespaces":                  {"/api/v1/namespaces"},
	"/api/v1/namespaces/{name}":           {"/api/v1/namespaces/default"},
	"/api/v1/namespaces/{namespace}/pods": {"/api/v1/namespaces/default/pods", "stream/api/v1/namespaces/default/pods?watch=true"},
	"/api/v1/namespaces/{namespace}/pods/{name}": {"/api/v1/namespaces/default/pods/seen", "/api/v1/namespaces/default/pods/edited"},
}

// formsOf returns the values of Accept with which to send a request.
func formsOf(request string) []string {
	if !strings.Contains(request, "/api/v1/") {
		return []string{""}
	}
	meta := "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	if !strings.Contains(request, "/pods/") && !strings.Contains(request, "watch=true") {
		meta = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	return []string{"", "application/vnd.kubernetes.protobuf", "application/json;as=Table;g=meta.k8s.io;v=v1", meta, "application/yaml"}
}

// patterns lists the patterns of a server.
type patterns []string

func (p *patterns) HandleFunc(pattern string, _ func(http.ResponseWriter, *http.Request)) {
	*p = append(*p, pattern)
}

// No byte of an answer has anything of a pod that the rules hide. A path that is new fails this
// test until it has a request here.
func TestNoAnswerHasACanary(t *testing.T) {
	d, routes := serveCanaries(t, canaryRules())
	hidden, _ := serveCanaries(t, []access.Rule{notMe(access.Full)})
	full, _ := serveCanaries(t, nil)
	leaks := 0
	var all patterns
	routes.route(&all, false)
	for _, pattern := range all {
		base := strings.TrimSuffix(pattern, "/{$}")
		requests := slices.Concat(canaryPaths[pattern], canaryPaths[base])
		if len(requests) == 0 {
			t.Errorf("%s is served, and not tested here", pattern)
		}
		for _, request := range requests {
			for _, accept := range formsOf(request) {
				if answer := d.bytes(t, request, accept); strings.Contains(strings.ToLower(answer), "canary") {
					t.Errorf("%s (%s) has a canary: %s", request, accept, answer)
				}
				answer := hidden.bytes(t, request, accept)
				if strings.Contains(strings.ToLower(answer), "canary") || strings.Contains(answer, `"name":"seen"`) || strings.Contains(answer, `"uid":"seen"`) {
					t.Errorf("%s (%s) of one who sees nothing: %s", request, accept, answer)
				}
			}
			if strings.Contains(strings.ToLower(full.bytes(t, request, "")), "canary") {
				leaks++
			}
		}
	}
	if leaks < 15 {
		t.Errorf("without rules, %d answers have a canary: the test can't see one", leaks)
	}
}

// bytes returns an answer, or the start of a stream: up to the change of the pod seen.
func (d *daemon) bytes(t *testing.T, request, accept string) string {
	t.Helper()
	answer, rest := d.answer(t, request, accept)
	if rest == nil {
		return answer
	}
	if strings.Contains(request, "/v1alpha1/containers") { // it may skip versions of a pod
		return readUntil(t, rest, `"initialSyncComplete":true`)
	}
	d.disturb(t)
	return readUntil(t, rest, "end")
}

// answer returns an answer, or the rest of a stream.
func (d *daemon) answer(t *testing.T, request, accept string) (answer string, rest io.Reader) {
	t.Helper()
	path, stream := strings.CutPrefix(request, "stream")
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if stream && resp.StatusCode == http.StatusOK {
		return "", resp.Body
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), nil
}

// readUntil reads until a mark.
func readUntil(t *testing.T, in io.Reader, mark string) string {
	t.Helper()
	var all []byte
	part := make([]byte, 32<<10)
	for {
		n, err := in.Read(part)
		from := max(0, len(all)-len(mark))
		all = append(all, part[:n]...)
		if bytes.Contains(all[from:], []byte(mark)) {
			return string(all)
		}
		if err != nil {
			t.Fatalf("%v after %.1000s", err, all)
		}
	}
}

// What is hidden is answered as what is not there.
func TestHiddenIsAsAbsent(t *testing.T) {
	d, _ := serveCanaries(t, canaryRules())
	for _, request := range []string{
		"GET /api/v1/namespaces/canary-ns/pods/canary-pod", "GET /api/v1/namespaces/canary-ns/pods", "GET /api/v1/namespaces/canary-ns", "GET /v1alpha1/lookup?podUID=canary-uid",
		"GET /v1alpha1/lookup?podUID=canary-orphan", "GET /v1alpha1/lookup?podUID=canary-uid&wait=1ms", "GET /v1alpha1/lookup?cgroup=/kubepods/podcanary-uid",
		"GET /v1alpha1/lookup?device=example.com/gpu:canary",
		"GET /v1alpha1/lookup?logPath=/var/log/pods/canary-ns_canary-pod_canary-uid/app/0.log",
		"GET /v1alpha1/history?pod=canary-ns/canary-pod", "GET /api/v1/pods?fieldSelector=metadata.name=canary-pod", "GET /api/v1/pods?labelSelector=app=canary",
		"POST /v1alpha1/resync?namespace=canary-ns&name=canary-pod",
	} {
		absent := strings.NewReplacer("canary-", "absent-").Replace(request)
		code, body := d.ask(t, request)
		otherCode, other := d.ask(t, absent)
		if code != otherCode || strings.ReplaceAll(body, "canary-", "absent-") != other {
			t.Errorf("%s: %d %s, but %s: %d %s", request, code, body, absent, otherCode, other)
		}
	}
	if code, body := d.ask(t, "POST /v1alpha1/resync?namespace=canary-ns&name=canary-pod"); code != http.StatusNotFound || !strings.Contains(body, "no such pod") {
		t.Errorf("resync of a pod that is hidden: %d %s", code, body)
	}
	// The test itself runs in no container. The reason would name its cgroup.
	if code, body := d.ask(t, fmt.Sprintf("GET /v1alpha1/lookup?pid=%d", os.Getpid())); code != http.StatusNotFound || !strings.Contains(body, "no pod that the access rules show has it") {
		t.Errorf("lookup of a process outside: %d %s", code, body)
	}
	if code, body := d.ask(t, "POST /v1alpha1/release?source=file"); code != http.StatusForbidden {
		t.Errorf("release: %d %s", code, body)
	}
	if code, body := d.ask(t, "POST /v1alpha1/resync?namespace=default&name=seen"); code != http.StatusServiceUnavailable {
		t.Errorf("resync of a pod that is seen: %d %s", code, body)
	}
}

// ask sends a request of the form "METHOD /path".
func (d *daemon) ask(t *testing.T, request string) (code int, body string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	return d.request(t, method, path)
}
