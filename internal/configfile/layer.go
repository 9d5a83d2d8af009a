package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/option"
	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

var configType = reflect.TypeFor[v1alpha1.PodConfigdConfiguration]()

// layer is what one file configures.
type layer struct {
	// flag is the flag that names the file.
	flag, path string
	want       format
	text       *yamlfault.Text
	// failure is why the file can't be read; empty if it can.
	failure string
	values  map[string]any
	found   yamlfault.Findings
	// broken is set if the file is not a configuration.
	broken bool
	// dropped are the fields with a value of a wrong type. They are not in values.
	dropped []string
}

// format says which kind of object a file must have, and which of its fields are used.
type format struct {
	apiVersion, kind string
	// fields are the fields that are used; nil if the file may have only the fields of
	// configType.
	fields []string
	// dropin means that the file is merged over another one.
	dropin bool
}

var ownFormat = format{apiVersion: v1alpha1.SchemeGroupVersion.String(), kind: v1alpha1.Kind}

// readLayer reads a file. The faults are in the layer.
func readLayer(flag, path string, want format) *layer {
	l := &layer{flag: flag, path: path, want: want}
	data, err := smallfile.Read(path)
	l.text = yamlfault.New(path, data)
	if err != nil {
		l.failure = reason(err, path)
		l.refuse(yamlfault.Fault{Message: l.failure})
		return l
	}
	if values := l.decode(want); values != nil {
		l.values = values
		if want.fields == nil || !want.dropin { // the kubelet resolves no paths in its drop-ins
			l.resolvePaths()
		}
	}
	return l
}

// reason returns the error of a read without the path, which precedes it.
func reason(err error, path string) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err.Error()
	}
	return strings.TrimPrefix(err.Error(), path+": ")
}

// refuse makes the file broken, with a fault.
func (l *layer) refuse(fault yamlfault.Fault) map[string]any {
	l.broken = true
	l.found.Add(func() yamlfault.Fault { return fault })
	return nil
}

// decode returns the values of the file, or nil if it is broken.
func (l *layer) decode(want format) map[string]any {
	text := l.text
	expected := "expected apiVersion " + want.apiVersion + ", kind " + want.kind
	if kubelet := "kind: " + kubeletFormat.kind; want.fields == nil && bytes.Contains(text.Data, []byte(kubelet)) {
		expected += "; for the configuration of a kubelet, use --kubelet-config or --kubelet-config-dir"
	}
	if line, more := yamlfault.LaterDocuments(text.Data); more > 0 {
		return l.refuse(yamlfault.Fault{Line: line, Message: "more than one YAML document: put all fields into the first, or use --config-dir"})
	}
	data, err := utilyaml.ToJSON(text.Data)
	if err != nil {
		return l.refuse(text.NotYAML(err))
	}
	decoded, err := yamlfault.Decode(data)
	if err != nil {
		return l.refuse(text.NotYAML(err))
	}
	if decoded == nil || len(bytes.TrimSpace(text.Data)) == 0 {
		return l.refuse(yamlfault.Fault{Message: "empty: " + expected})
	}
	values, ok := decoded.(map[string]any)
	if !ok {
		return l.refuse(yamlfault.Fault{Line: 1, Message: "not an object: " + expected})
	}
	for _, field := range []struct{ name, want string }{{"apiVersion", want.apiVersion}, {"kind", want.kind}} {
		switch got, isText := values[field.name].(string); {
		case got == "":
			l.refuse(text.At(field.name, "required: %s", expected))
		case !isText || got != field.want:
			l.refuse(text.At(field.name, "%q: %s", got, expected))
		}
	}
	if l.broken {
		return nil
	}
	var unset []string
	if want.fields != nil {
		maps.DeleteFunc(values, func(name string, _ any) bool { return !slices.Contains(want.fields, name) })
		unset = slices.DeleteFunc(slices.Collect(maps.Keys(values)), func(name string) bool { return !isUnset(name, values[name]) })
		for _, name := range unset {
			delete(values, name)
		}
		if data, err = json.Marshal(values); err != nil {
			return l.refuse(yamlfault.Fault{Message: err.Error()})
		}
	} else {
		l.found.AddAll(text.Duplicates(""))
		l.found.AddAll(text.Unknown(data, configType, ""))
		l.found.AddAll(text.Nulls(data, configType))
	}
	l.dropMismatches(values, data)
	if want.fields != nil && want.dropin {
		for _, name := range unset {
			values[name] = nil // it takes the value of the files before away, and the default counts
		}
	}
	l.refuseEmptyRestrictions(values)
	return values
}

// restrictions are the fields of an access rule that restrict it. A rule without any of them is for all clients.
var restrictions = []string{"users", "uids", "groups", "gids", "authenticatedUsers", "authenticatedGroups", "sources", "namespaces", "labelSelector"}

// refuseEmptyRestrictions adds a fault for each restriction of an access rule, and for access itself, that is
// there without a value. A user who takes the last name out of a list does not mean everybody.
func (l *layer) refuseEmptyRestrictions(values map[string]any) {
	access, ok := values["access"]
	if ok && access == nil {
		l.found.Add(func() yamlfault.Fault {
			return l.text.At("access", "no value: expected rules, or [] to show everything to all clients")
		})
	}
	rules, _ := access.([]any)
	for i, rule := range rules {
		object, _ := rule.(map[string]any)
		for _, name := range restrictions {
			value, ok := object[name]
			if list, isList := value.([]any); ok && (value == nil || value == "" || isList && len(list) == 0) {
				l.found.Add(func() yamlfault.Fault {
					return l.text.At(fmt.Sprintf("access[%d].%s", i, name), "empty: expected at least one; leave the field out if the rule is for all")
				})
			}
		}
	}
}

// dropMismatches removes the values whose type is not that of their field.
func (l *layer) dropMismatches(values map[string]any, data []byte) {
	mismatches := l.text.Mismatches(data, configType)
	l.found.AddAll(mismatches)
	for _, fault := range mismatches.Faults() {
		l.dropped = append(l.dropped, drop(values, fault.Field))
	}
}

// isUnset reports whether a value of a KubeletConfiguration is the same as none. Tools write all
// fields, with the zero value for the default. For eventRecordQPS, 0 is a value of its own.
//
// kubelet: pkg/kubelet/apis/config/v1beta1/defaults.go SetDefaults_KubeletConfiguration.
func isUnset(name string, value any) bool {
	switch value := value.(type) {
	case string:
		zero, err := time.ParseDuration(value)
		return value == "" || err == nil && zero == 0
	case json.Number:
		number, err := value.Float64()
		return name != "eventRecordQPS" && err == nil && number == 0
	}
	return value == nil
}

// resolvePaths makes relative paths relative to the folder of the file.
//
// kubelet: pkg/kubelet/apis/config/helpers.go KubeletConfigurationPathRefs.
func (l *layer) resolvePaths() {
	folder, err := filepath.Abs(filepath.Dir(l.path))
	if err != nil {
		l.refuse(yamlfault.Fault{Message: err.Error()})
		return
	}
	for _, field := range v1alpha1.PathFields {
		resolve(l.values, field, folder)
	}
}

// resolve makes the relative paths in a field absolute.
func resolve(value any, field, folder string) {
	name, rest, _ := strings.Cut(field, ".")
	name, isList := strings.CutSuffix(name, "[]")
	object, _ := value.(map[string]any)
	if items, ok := object[name].([]any); ok && isList {
		for _, item := range items {
			resolve(item, rest, folder)
		}
		return
	}
	if rest != "" {
		resolve(object[name], rest, folder)
		return
	}
	if path, ok := object[name].(string); ok && path != "" && !filepath.IsAbs(path) {
		object[name] = filepath.Join(folder, path)
	}
}

// lookUp returns the value at a path. For an item of a list, it returns the list, because a
// list replaces the whole list of the layers below.
func lookUp(value any, path string) (found any, is bool) {
	object, isObject := value.(map[string]any)
	if path == "" || !isObject {
		return value, path == "" || value != nil
	}
	name, rest, ok := member(object, path)
	if !ok {
		return nil, false
	}
	return lookUp(object[name], rest)
}

// drop removes the value at the path from the closest object with a field for it, and returns
// the path of that field.
func drop(value any, path string) (dropped string) {
	switch value := value.(type) {
	case []any:
		index, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(index); err == nil && i < len(value) {
			rest = strings.TrimPrefix(rest, ".")
			if below := drop(value[i], rest); below != "" {
				return path[:len(path)-len(rest)+len(below)]
			}
		}
	case map[string]any:
		name, rest, ok := member(value, path)
		if !ok {
			return ""
		}
		if below := drop(value[name], rest); below != "" {
			return path[:len(path)-len(rest)+len(below)]
		}
		delete(value, name)
		return strings.TrimSuffix(path[:len(path)-len(rest)], ".")
	}
	return ""
}

// member returns the name of the longest member with which the path starts, and the path below
// it.
func member(object map[string]any, path string) (name, rest string, ok bool) {
	for candidate := range object {
		if below, is := option.Below(path, candidate); is && (!ok || len(candidate) > len(name)) {
			name, rest, ok = candidate, strings.TrimPrefix(below, "."), true
		}
	}
	return name, rest, ok
}
