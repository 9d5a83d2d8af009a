package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

const introduction = `# Reference of the configuration file

<!-- Generated from api/config/v1alpha1 by "make generate". Do not edit. -->

[config.md](../how-to/config.md) describes how podconfigd reads the file. [schema.json](../../api/config/v1alpha1/schema.json) is its
JSON schema. For completion and checks in an editor that uses yaml-language-server, name the schema in the first line of the file:

` + "```" + `text
# yaml-language-server: $schema=https://raw.githubusercontent.com/podconfigd/podconfigd/main/api/config/v1alpha1/schema.json
` + "```" + `

`

// page is the reference page.
type page struct {
	*typeSet
	options  *options
	out      bytes.Buffer
	defaults map[string]any
	done     map[reflect.Type]bool
}

// reference returns the reference page.
func (s *typeSet) reference() ([]byte, error) {
	defaults, err := defaults()
	if err != nil {
		return nil, err
	}
	p := &page{typeSet: s, options: s.readOptions(), defaults: defaults, done: map[reflect.Type]bool{}}
	p.out.WriteString(introduction)
	fmt.Fprintf(&p.out, "`apiVersion` is `%s`, and `kind` is `%s`. Both are required.\n", v1alpha1.SchemeGroupVersion, v1alpha1.Kind)
	p.object(root, "")
	p.reloads()
	return p.out.Bytes(), nil
}

// defaults returns the file with all defaults, as JSON.
func defaults() (values map[string]any, err error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	file := &v1alpha1.PodConfigdConfiguration{}
	scheme.Default(file)
	file.Socket = new("/run/podconfigd/podconfigd.sock") // that of root
	data, err := json.Marshal(file)
	if err == nil {
		err = json.Unmarshal(data, &values)
	}
	return values, err
}

// object writes the table of a type, and then those of the types of its fields.
func (p *page) object(typ reflect.Type, path string) {
	p.done[typ] = true
	fmt.Fprintf(&p.out, "\n## %s\n\n%s\n\n| field | type | default | flag | description |\n|---|---|---|---|---|\n", typ.Name(), p.comments[typ.Name()].text)
	fields := p.fields(typ)
	for _, field := range fields {
		below := strings.TrimPrefix(path+"."+field.name, ".")
		flag := "none"
		if name := p.options.table.Flag(below); name != "" {
			flag = "`--" + name + "`"
		}
		description := field.described()
		if object(field.typ) != nil && field.typ.Kind() == reflect.Struct {
			flag = ""
		}
		fmt.Fprintf(&p.out, "| `%s` | %s | %s | %s | %s |\n", field.name, name(field.typ), p.standard(below, field), flag, strings.ReplaceAll(description, "|", "\\|"))
	}
	for _, field := range fields {
		if below := object(field.typ); below != nil && !p.done[below] {
			p.object(below, strings.TrimPrefix(path+"."+field.name, "."))
		}
	}
}

// reloads writes the table of what changes on a reload.
func (p *page) reloads() {
	p.out.WriteString("\n## What a reload changes\n\nOn SIGHUP, podconfigd [loads the files again](../how-to/config.md#reload).\n\n| fields | on SIGHUP |\n|---|---|\n")
	paths := map[string][]string{}
	for i := range p.options.table {
		o := &p.options.table[i]
		paths[o.Reload] = append(paths[o.Reload], "`"+o.Path+"`")
	}
	for _, r := range reloads {
		if r.part == "" {
			paths[""] = []string{"all others"}
		}
		fmt.Fprintf(&p.out, "| %s | %s |\n", strings.Join(paths[r.part], ", "), r.text)
		delete(paths, r.part)
	}
	for part := range paths {
		panic("no text for the reload of " + part)
	}
}

// reloads are the groups of options that take changes while the daemon runs, with what happens.
var reloads = []struct{ part, text string }{
	{"sources", "Sources are added, removed and changed: [sources.md](sources.md#change-sources-while-podconfigd-runs)."},
	{"podsAPI", "podconfigd connects to the kubelet again. With another path, it forgets the statuses that it got."},
	{"brake", "A held set that is within the new limit is applied."},
	{"access", "The rules count at once: [access.md](access.md#when-the-rules-change)."},
	{"events", "The new limits count for the next event."},
	{"loop", "The new period counts at once."},
	{"pleg", "The new periods count at once."},
	{"limits", "New streams are counted against the new limit. Open streams stay. The number of streams in one gRPC connection stays that of the start."},
	{"journal", "What is beyond the new limit is removed."},
	{"state", "What is beyond the new limit is removed."},
	{"log", "It counts at once."},
	{"", "They need a restart. The content of certificates, keys, tokens and kubeconfigs is reloaded when the files change, without SIGHUP."},
}

// standard returns the default of a field.
func (p *page) standard(path string, field field) string {
	if field.required {
		return "required"
	}
	if o, rest := p.options.table.Of(path); o != nil && rest == "" && o.Default != "" {
		return "`" + o.Default + "`"
	}
	var value any = p.defaults
	for name := range strings.SplitSeq(path, ".") {
		below, _ := value.(map[string]any)
		value = below[name]
	}
	switch value := value.(type) {
	case nil, map[string]any:
		return ""
	case float64:
		return fmt.Sprintf("`%.f`", value)
	default:
		return fmt.Sprintf("`%v`", value)
	}
}

// object returns the type of the objects in a field, or nil.
func object(typ reflect.Type) reflect.Type {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() == reflect.Struct && !isScalar(typ) {
		return typ
	}
	return nil
}

// isScalar reports whether a struct is one value in the file.
func isScalar(typ reflect.Type) bool {
	return reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// name returns the name of a type, with a link to its table.
func name(typ reflect.Type) string {
	switch typ {
	case reflect.TypeFor[metav1.Duration](), reflect.TypeFor[logsapi.TimeOrMetaDuration]():
		return "duration"
	case reflect.TypeFor[intstr.IntOrString]():
		return "integer or string"
	}
	switch typ.Kind() { //nolint:exhaustive // the file has no other kinds
	case reflect.Pointer:
		return name(typ.Elem())
	case reflect.Slice:
		return "[]" + name(typ.Elem())
	case reflect.Map:
		return "map[string]" + name(typ.Elem())
	case reflect.Struct:
		if isScalar(typ) {
			return "quantity"
		}
		return fmt.Sprintf("[%s](#%s)", typ.Name(), strings.ToLower(typ.Name()))
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	}
	return "integer"
}
