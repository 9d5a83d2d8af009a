package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

type metaType = metav1.TypeMeta

// schema is a JSON schema.
type schema struct {
	Schema      string `json:"$schema,omitempty"`
	ID          string `json:"$id,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Type is a string, or several.
	Type                 any                `json:"type,omitempty"`
	Const                string             `json:"const,omitempty"`
	Enum                 []any              `json:"enum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Minimum              *int64             `json:"minimum,omitempty"`
	Maximum              *int64             `json:"maximum,omitempty"`
	MinLength            int                `json:"minLength,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	MinItems             int                `json:"minItems,omitempty"`
	Required             []string           `json:"required,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	AdditionalProperties any                `json:"additionalProperties,omitempty"`
}

// schema returns the JSON schema of the file.
func (s *typeSet) schema() ([]byte, error) {
	object, err := s.object(root)
	if err != nil {
		return nil, err
	}
	object.Schema = "https://json-schema.org/draft/2020-12/schema"
	object.ID = "https://" + v1alpha1.GroupName + "/v1alpha1/schema.json"
	object.Title, object.Description, object.Type = v1alpha1.Kind, s.comments[root.Name()].text, "object"
	object.Required = []string{"apiVersion", "kind"}
	object.Properties["apiVersion"] = &schema{Const: v1alpha1.SchemeGroupVersion.String()}
	object.Properties["kind"] = &schema{Const: v1alpha1.Kind}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(object)
	return out.Bytes(), err
}

func (s *typeSet) object(typ reflect.Type) (*schema, error) {
	object := &schema{Type: orNull("object"), Properties: map[string]*schema{}, AdditionalProperties: false}
	for _, field := range s.fields(typ) {
		of, err := s.value(field.typ)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", typ.Name(), field.name, err)
		}
		of.Description = field.described()
		if of.Minimum == nil {
			of.Minimum = field.number("minimum")
		}
		of.Maximum = field.number("maximum")
		if pattern := field.markers["pattern"]; pattern != "" {
			of.Pattern = pattern
		}
		if values := field.markers["enum"]; values != "" {
			for value := range strings.SplitSeq(values, ",") {
				of.Enum = append(of.Enum, value)
			}
		}
		_, notNull := field.markers["notNull"]
		if _, is := field.markers["notEmpty"]; is {
			notNull = true
			if of.Items != nil {
				of.MinItems = 1
			} else {
				of.MinLength = 1
			}
		}
		if notNull {
			of.Type = withoutNull(of.Type)
		}
		if field.required {
			object.Required = append(object.Required, field.name)
			of.Type = withoutNull(of.Type)
		} else if of.Enum != nil {
			of.Enum = append(of.Enum, nil)
		}
		object.Properties[field.name] = of
	}
	return object, nil
}

// A value of time.ParseDuration, without a sign.
const durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$`

// value returns the schema of a type. null is the default of every field.
func (s *typeSet) value(typ reflect.Type) (*schema, error) {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ {
	case reflect.TypeFor[metav1.Duration]():
		return &schema{Type: orNull("string"), Pattern: durationPattern}, nil
	case reflect.TypeFor[logsapi.TimeOrMetaDuration]():
		return &schema{Type: []string{"string", "integer", "null"}, Pattern: durationPattern}, nil
	case reflect.TypeFor[intstr.IntOrString]():
		return &schema{Type: []string{"string", "integer", "null"}}, nil
	case reflect.TypeFor[resource.QuantityValue]():
		return &schema{Type: []string{"string", "number", "null"}}, nil
	}
	switch typ.Kind() { //nolint:exhaustive // the file has no other kinds
	case reflect.String:
		return &schema{Type: orNull("string")}, nil
	case reflect.Bool:
		return &schema{Type: orNull("boolean")}, nil
	case reflect.Int32, reflect.Int64:
		return &schema{Type: orNull("integer")}, nil
	case reflect.Uint32:
		return &schema{Type: orNull("integer"), Minimum: new(int64(0)), Maximum: new(int64(1<<32 - 1))}, nil
	case reflect.Struct:
		return s.object(typ)
	case reflect.Slice:
		items, err := s.value(typ.Elem())
		if err != nil {
			return nil, err
		}
		items.Type = withoutNull(items.Type)
		return &schema{Type: orNull("array"), Items: items}, nil
	case reflect.Map:
		values, err := s.value(typ.Elem())
		return &schema{Type: orNull("object"), AdditionalProperties: values}, err
	}
	return nil, fmt.Errorf("no schema for type %v", typ)
}

func orNull(typ string) []string { return []string{typ, "null"} }

func withoutNull(types any) any {
	if list, ok := types.([]string); ok && len(list) == 2 {
		return list[0]
	}
	return types
}
