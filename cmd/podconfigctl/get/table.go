package get

import (
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

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// podPrinter prints pods as rows of a table. owner returns the owner of a pod; nil for a table without owners. With devices, the pods
// are those of a devicePrinter.
type podPrinter struct {
	delegate printers.ResourcePrinter
	owner    func(*v1.Pod) string
	devices  bool
}

// PrintObj prints a pod, a list of pods, or an event of a watch.
func (p podPrinter) PrintObj(obj runtime.Object, out io.Writer) error {
	event, isEvent := obj.(*metav1.WatchEvent)
	if isEvent {
		obj = event.Object.Object
	}
	table := &metav1.Table{ColumnDefinitions: columns()}
	if p.owner != nil {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: "Owner", Type: "string", Priority: 1})
	}
	if p.devices {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: "Devices", Type: "string"})
	}
	// A pod can have any reference, also one with the UID of another's controller.
	type reference struct{ namespace, apiVersion, kind, name, uid string }
	owners := make(map[reference]string) // by the controller, or without one by the pod
	add := func(item runtime.Object) error {
		object, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("printing %T: expected a pod", item)
		}
		pod, err := podOf(object)
		if err != nil {
			return err
		}
		row := cells(pod)
		if p.owner != nil {
			key := reference{uid: string(pod.UID)}
			if c := metav1.GetControllerOfNoCopy(pod); c != nil {
				key = reference{pod.Namespace, c.APIVersion, c.Kind, c.Name, string(c.UID)}
			}
			if _, asked := owners[key]; !asked {
				owners[key] = cli.Cell(p.owner(pod))
			}
			row = append(row, owners[key])
		}
		if p.devices {
			devices, err := devicesOf(object)
			if err != nil {
				return err
			}
			row = append(row, devices)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: row, Object: runtime.RawExtension{Object: object}})
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

// columns are the columns of kubectl, and then those of podconfigd. Those with a priority are for -o wide.
func columns() (columns []metav1.TableColumnDefinition) {
	for priority, names := range []string{"Name,Ready,Status,Restarts,Age", "IP,Node,Nominated Node,Readiness Gates", "Source", "UID,Images"} {
		for name := range strings.SplitSeq(names, ",") {
			columns = append(columns, metav1.TableColumnDefinition{Name: name, Type: "string", Priority: int32(priority % 2)})
		}
	}
	return columns
}

// cells are the cells of all columns.
func cells(pod *v1.Pod) []any {
	row := append(podfields.Cells(pod, time.Now()),
		pod.Annotations[config.ConfigSourceAnnotationKey], string(pod.UID), strings.Join(podfields.Images(pod), ","))
	for i := range row {
		row[i] = cli.Cell(fmt.Sprint(row[i]))
	}
	return row
}
