package daemon

import "github.com/podconfigd/podconfigd/api/config/v1alpha1"

// FieldName is the path of a field of the configuration file. A field of a field has dots, and an item of a
// list its index: fileSources[1].path.
type FieldName string

// String returns the flag that sets the field, or the path if there is no flag.
func (n FieldName) String() string {
	if flag := v1alpha1.Options.Flag(string(n)); flag != "" {
		return "--" + flag
	}
	return string(n)
}
