package get

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podconfigd/podconfigd/internal/cli"
	"github.com/podconfigd/podconfigd/internal/podtable"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// podPrinter prints pods as rows of a table.
type podPrinter struct {
	ctx      context.Context //nolint:containedctx // the interface of printers has none
	client   *client.Client
	delegate printers.ResourcePrinter
	// running are the pods of the runtime at the time asked; nil if there is no runtime.
	running cli.RuntimePods
	asked   time.Time
}

// runtimeAge is how long the pods of the runtime are used for further rows.
const runtimeAge = time.Second

// noRuntimeError means that a pod was not printed, because the daemon did not tell the pods of the
// runtime.
type noRuntimeError struct{ error }

func (e *noRuntimeError) Unwrap() error { return e.error }

// PrintObj prints a pod, a list of pods, or an event of a watch.
func (p *podPrinter) PrintObj(obj runtime.Object, out io.Writer) error {
	if p.asked.IsZero() || (p.running != nil && time.Since(p.asked) > runtimeAge) {
		running, err := cli.AskRuntime(p.ctx, p.client)
		if err != nil {
			return &noRuntimeError{err}
		}
		p.running, p.asked = running, time.Now()
	}
	event, isEvent := obj.(*metav1.WatchEvent)
	if isEvent {
		obj = event.Object.Object
	}
	table := &metav1.Table{ColumnDefinitions: p.columns()}
	add := func(item runtime.Object) error {
		object, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("printing %T: expected a pod", item)
		}
		pod, err := podOf(object)
		if err != nil {
			return err
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: p.cells(pod), Object: runtime.RawExtension{Object: object}})
		return nil
	}
	var err error
	if meta.IsListType(obj) {
		err = meta.EachListItem(obj, add)
	} else {
		err = add(obj)
	}
	if err != nil {
		return err
	}
	if isEvent {
		return p.delegate.PrintObj(&metav1.WatchEvent{Type: event.Type, Object: runtime.RawExtension{Object: table}}, out)
	}
	return p.delegate.PrintObj(table, out)
}

// columns are the columns of the table. Those with a priority are for -o wide.
func (p *podPrinter) columns() (columns []metav1.TableColumnDefinition) {
	names := "Namespace Name Source Containers Seen"
	wide := "UID Images"
	if p.running != nil {
		names, wide = "Namespace Name Source Ready Status Restarts Age Seen", "IP UID Images"
	}
	for name := range strings.FieldsSeq(names) {
		columns = append(columns, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for name := range strings.FieldsSeq(wide) {
		columns = append(columns, metav1.TableColumnDefinition{Name: name, Type: "string", Priority: 1})
	}
	return columns
}

// cells are the cells of all columns.
func (p *podPrinter) cells(pod *v1.Pod) []any {
	row := []string{pod.Namespace, pod.Name, pod.Annotations[config.ConfigSourceAnnotationKey]}
	if p.running != nil {
		row = append(row, runtimeColumns(p.running, pod)...)
	} else {
		row = append(row, fmt.Sprint(len(pod.Spec.Containers)))
	}
	var seen *time.Time
	if t, err := time.Parse(time.RFC3339Nano, pod.Annotations[config.ConfigFirstSeenAnnotationKey]); err == nil {
		seen = &t
	}
	row = append(row, cli.Age(seen))
	if p.running != nil {
		row = append(row, cmp.Or(pod.Status.PodIP, "<none>"))
	}
	row = append(row, string(pod.UID), strings.Join(podtable.Images(pod), ","))
	cells := make([]any, len(row))
	for i := range row {
		cells[i] = cli.Cell(row[i])
	}
	return cells
}

// runtimeColumns returns the READY, STATUS, RESTARTS and AGE columns of the pod: as kubectl
// prints them. Only the age is different: it is that of the sandbox.
func runtimeColumns(running cli.RuntimePods, pod *v1.Pod) []string {
	row := make([]string, 0, 4)
	for _, cell := range podtable.Cells(pod, time.Now())[1:4] {
		row = append(row, fmt.Sprint(cell))
	}
	if p := running[string(pod.UID)]; p != nil {
		return append(row, cli.Age(p.CreatedAt))
	}
	return append(row, "<none>")
}
