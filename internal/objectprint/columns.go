package objectprint

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"github.com/liggitt/tabwriter"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// columns prints a row for each object, with the fields of JSONPath expressions.
//
// kubectl: pkg/cmd/get customcolumn.go CustomColumnsPrinter.
type columns struct {
	headers   []string
	paths     []*jsonpath.JSONPath
	noHeaders bool
	// lastType is the type that was printed last. A new one has headers again.
	lastType reflect.Type
}

// columnsFromSpec parses HEADER:PATH,HEADER:PATH.
func columnsFromSpec(spec string, noHeaders bool) (*columns, error) {
	c := &columns{noHeaders: noHeaders}
	for part := range strings.SplitSeq(spec, ",") {
		header, path, found := strings.Cut(part, ":")
		if !found {
			return nil, fmt.Errorf("column %q: expected HEADER:PATH", part)
		}
		if err := c.add(header, path); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// columnsFromFile parses a line of headers and a line of paths.
func columnsFromFile(text string) (*columns, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 {
		return nil, errors.New("reading the custom columns: expected a line of headers and a line of paths")
	}
	headers, paths := strings.Fields(lines[0]), strings.Fields(lines[1])
	if len(headers) != len(paths) {
		return nil, fmt.Errorf("reading the custom columns: expected as many paths as headers, got %d and %d", len(paths), len(headers))
	}
	c := new(columns)
	for i := range headers {
		if err := c.add(headers[i], paths[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *columns) add(header, path string) error {
	parser, err := parsePath(path)
	if err != nil {
		return fmt.Errorf("column %q: %w", header, err)
	}
	c.headers, c.paths = append(c.headers, header), append(c.paths, parser)
	return nil
}

// relaxed matches a path with or without braces and the first dot.
var relaxed = regexp.MustCompile(`^\{\.?([^{}]+)\}$|^\.?([^{}]+)$`)

// parsePath parses metadata.name, .metadata.name, {metadata.name} or {.metadata.name}.
//
// kubectl: pkg/cmd/get customcolumn.go RelaxedJSONPathExpression.
func parsePath(path string) (*jsonpath.JSONPath, error) {
	if path != "" {
		parts := relaxed.FindStringSubmatch(path)
		if parts == nil {
			return nil, fmt.Errorf("path %q: expected for example .metadata.name or {.metadata.name}", path)
		}
		path = "{." + parts[1] + parts[2] + "}"
	}
	parser := jsonpath.New("path").AllowMissingKeys(true)
	if err := parser.Parse(path); err != nil {
		return nil, err
	}
	return parser, nil
}

// PrintObj prints an object or a list.
func (c *columns) PrintObj(obj runtime.Object, out io.Writer) error {
	if _, found := out.(*tabwriter.Writer); !found {
		w := printers.GetNewTabWriter(out)
		if err := c.PrintObj(obj, w); err != nil {
			return err
		}
		return w.Flush()
	}
	if t := reflect.TypeOf(obj); !c.noHeaders && t != c.lastType {
		c.lastType = t
		if _, err := fmt.Fprintln(out, strings.Join(c.headers, "\t")); err != nil {
			return err
		}
	}
	if meta.IsListType(obj) {
		return meta.EachListItem(obj, func(item runtime.Object) error { return c.row(item, out) })
	}
	return c.row(obj, out)
}

func (c *columns) row(obj runtime.Object, out io.Writer) error {
	content, err := contentOf(obj)
	if err != nil {
		return err
	}
	cells := make([]string, len(c.paths))
	for i, path := range c.paths {
		found, err := path.FindResults(content)
		if err != nil {
			return err
		}
		var values []string
		if len(found) == 0 || len(found[0]) == 0 {
			values = append(values, "<none>")
		}
		for _, results := range found {
			for _, value := range results {
				values = append(values, escape(fmt.Sprint(value.Interface())))
			}
		}
		cells[i] = strings.Join(values, ",")
	}
	_, err = fmt.Fprintln(out, strings.Join(cells, "\t"))
	return err
}

// escape escapes what moves the cursor of a terminal, or reverses or hides text. kubectl escapes
// only ESC and CR, but some terminals also take C1 control characters, such as U+009B, for the start
// of a sequence.
func escape(text string) string { return printable.EscapeBut(printers.EscapeTerminal(text), "\n\t") }

// contentOf returns the fields of an object. An event of a watch has type and object.
func contentOf(obj runtime.Object) (map[string]any, error) {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return o.Object, nil
	case *metav1.WatchEvent:
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.Object.Object)
		return map[string]any{"type": o.Type, "object": object}, err
	}
	return nil, fmt.Errorf("printing %T: expected an unstructured object", obj)
}
