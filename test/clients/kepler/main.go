// Command kepler is the part of Kepler that asks for pods, unmodified: its watcher of the pods of a node, as Kepler starts
// it with -kubeconfig. The rest of Kepler is not there, because it ends if the kernel does not load its BPF programs.
//
// The program prints the containers that the watcher has as one line of JSON after each change. NODE_NAME is the node.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/sustainable-computing-io/kepler/pkg/bpf"
	"github.com/sustainable-computing-io/kepler/pkg/collector/stats"
	"github.com/sustainable-computing-io/kepler/pkg/config"
	"github.com/sustainable-computing-io/kepler/pkg/kubernetes"
)

// container is what Kepler has of a container.
type container struct{ ID, Namespace, Pod, Name string }

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	flag.Parse()
	dir, err := os.MkdirTemp("", "kepler")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if _, err := config.Initialize(dir); err != nil {
		log.Fatal(err)
	}
	config.SetKubeConfig(*kubeconfig)
	config.SetEnableAPIServer(true)

	w, err := kubernetes.NewObjListWatcher(bpf.DefaultSupportedMetrics())
	if err != nil {
		log.Fatal(err)
	}
	w.Mx = new(sync.Mutex)
	w.ContainerStats = make(map[string]*stats.ContainerStats)
	if err := w.Run(); err != nil {
		log.Fatal(err)
	}
	for last := ""; ; time.Sleep(100 * time.Millisecond) {
		if line := containers(w); line != last {
			fmt.Println(line)
			last = line
		}
	}
}

// containers returns the containers that the watcher has, sorted by ID, as JSON.
func containers(w *kubernetes.ObjListWatcher) string {
	w.Mx.Lock()
	defer w.Mx.Unlock()
	have := make(map[string]container)
	for id, c := range w.ContainerStats {
		have[id] = container{ID: id, Namespace: c.Namespace, Pod: c.PodName, Name: c.ContainerName}
	}
	line, err := json.Marshal(have)
	if err != nil {
		log.Fatal(err)
	}
	return string(line)
}
