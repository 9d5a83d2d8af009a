// Command fleet-agents is the agents of one node: each has an informer of client-go with the pods of the node, and a connection of its
// own. Usage: fleet-agents KUBECONFIG|SOCKET NODE AGENTS
//
// The agents ask the apiserver of a kubeconfig, or podconfigd on its socket. Commands on standard input:
//
//	await PODS GENERATION   answer when each agent has that many pods, one of them with the generation in its annotation
//	reset                   forget the delays
//	report                  print the delays since the reset in µs as a JSON array
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// Annotations of the pods: when the pod was written, in ns, and the generation of the writes.
const (
	written    = "bench/written"
	generation = "bench/generation"
)

// poll is how often await looks.
const poll = 5 * time.Millisecond

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "fleet-agents:", err)
		os.Exit(1)
	}
}

// delays are the times from the writes to the agents, in µs.
type delays struct {
	mu  sync.Mutex
	all []int64
}

func run(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: fleet-agents KUBECONFIG|SOCKET NODE AGENTS")
	}
	n, err := strconv.Atoi(args[3])
	if err != nil {
		return fmt.Errorf("number of agents: %w", err)
	}
	d := new(delays)
	var stores []cache.Store
	for range n {
		store, err := startAgent(args[1], args[2], d)
		if err != nil {
			return err
		}
		stores = append(stores, store)
	}
	return d.serve(stores)
}

// startAgent starts an informer, which runs until the process ends.
func startAgent(server, node string, d *delays) (cache.Store, error) {
	config, err := configOf(server)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	selected := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	})
	informer := informers.NewSharedInformerFactoryWithOptions(client, 0, selected).Core().V1().Pods().Informer()
	// A pod that was written before the last reset is not of the run.
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, pod any) { d.take(pod.(*v1.Pod)) }, //nolint:errcheck,forcetypeassert // of an informer of pods
	}); err != nil {
		return nil, fmt.Errorf("adding a handler: %w", err)
	}
	go informer.RunWithContext(context.Background())
	return informer.GetStore(), nil
}

// configOf returns how to reach the server. A dialer of its own keeps client-go from sharing the connection.
func configOf(server string) (*rest.Config, error) {
	var dialer net.Dialer
	config := &rest.Config{Host: "http://podconfigd", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", server)
	}}
	if info, err := os.Stat(server); err == nil && info.Mode().IsRegular() {
		if config, err = clientcmd.BuildConfigFromFlags("", server); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
		config.Dial = dialer.DialContext
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.QPS = -1
	return config, nil
}

func (d *delays) take(pod *v1.Pod) {
	now := time.Now().UnixNano()
	at, err := strconv.ParseInt(pod.Annotations[written], 10, 64)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, (now-at)/int64(time.Microsecond))
}

// serve does the commands until standard input ends.
func (d *delays) serve(stores []cache.Store) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var answer any = "done"
		switch command := strings.Fields(lines.Text()); command[0] {
		case "await":
			pods, err := strconv.Atoi(command[1])
			if err != nil {
				return fmt.Errorf("number of pods: %w", err)
			}
			for _, store := range stores {
				for !has(store, pods, command[2]) {
					<-ticker.C
				}
			}
		case "reset":
			d.mu.Lock()
			d.all = nil
			d.mu.Unlock()
		case "report":
			d.mu.Lock()
			answer = append([]int64{}, d.all...)
			d.mu.Unlock()
		}
		line, err := json.Marshal(answer)
		if err != nil {
			return fmt.Errorf("encoding an answer: %w", err)
		}
		fmt.Println(string(line))
	}
	return nil
}

// has reports whether an agent has all pods, and one of a generation.
func has(store cache.Store, pods int, want string) bool {
	all := store.List()
	return len(all) == pods && slices.ContainsFunc(all, func(pod any) bool {
		return pod.(*v1.Pod).Annotations[generation] == want //nolint:errcheck,forcetypeassert // of an informer of pods
	})
}
