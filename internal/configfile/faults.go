package configfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/yamlfault"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// placed is a fault in a file.
type placed struct {
	yamlfault.Fault
	from *layer
}

// Error returns the fault with file, line and field.
func (p *placed) Error() string {
	if text := p.In(p.from.path); p.Line > 0 {
		return text
	}
	return p.from.path + ": " + p.In("")
}

// errors returns the faults of the file.
func (l *layer) errors() (errs []error) {
	for _, fault := range l.found.Bounded() {
		errs = append(errs, &placed{fault, l})
	}
	return errs
}

// sort puts faults into the order of the files and of the lines. Faults without a file, such
// as those of flags, come last.
func (c *Configuration) sort(errs []error) []error {
	place := func(err error) (file, line int) {
		fault, ok := err.(*placed) //nolint:errorlint // it is not wrapped
		if !ok {
			return len(c.layers), 0
		}
		return slices.Index(c.layers, fault.from), fault.Line
	}
	slices.SortStableFunc(errs, func(a, b error) int {
		fileOfA, lineOfA := place(a)
		fileOfB, lineOfB := place(b)
		return cmp.Or(cmp.Compare(fileOfA, fileOfB), cmp.Compare(lineOfA, lineOfB))
	})
	return errs
}

// origin returns the file that gives the value of a path, and its line. The file is nil if no
// file does.
func (c *Configuration) origin(path string) (from *layer, line int) {
	for _, l := range slices.Backward(c.layers) {
		value, ok := lookUp(l.values, path)
		if value == nil && ok { // null is the default
			return nil, 0
		}
		if ok {
			line, _ := l.text.Locate(path)
			return l, line
		}
	}
	return nil, 0
}

// located returns the faults in the error of the daemon, each with the place that its value comes from.
func (c *Configuration) located(err error) (errs []error) {
	var faults []error
	switch err := err.(type) { //nolint:errorlint // Validate joins the faults
	case nil:
	case interface{ Unwrap() []error }:
		faults = err.Unwrap()
	default:
		faults = []error{err}
	}
	for _, fault := range faults {
		if of, ok := errors.AsType[*daemon.FieldError](fault); ok {
			fault = c.locate(of)
		}
		if fault != nil {
			errs = append(errs, fault)
		}
	}
	return errs
}

// locate returns the fault with the file and the line of the first of its fields that is from
// a file. It is nil if a field of the fault is already faulty.
func (c *Configuration) locate(fault *daemon.FieldError) error {
	message := yamlfault.Fault{Message: fault.Text(c.name)}
	if fault.Field != "" {
		message.Field = c.name(fault.Field)
	}
	var place *placed
	for _, name := range fault.Fields() {
		path := string(name)
		if c.isFaulty(path) {
			return nil
		}
		if from, line := c.origin(path); from != nil && !c.changed(v1alpha1.Options.Flag(path)) && place == nil {
			message.Line = line
			place = &placed{message, from}
		}
	}
	if place == nil {
		return errors.New(message.In(""))
	}
	return place
}

// name returns the flag of a field if it is on the command line, or if there are no files; or else its path.
func (c *Configuration) name(name daemon.FieldName) string {
	if flag := v1alpha1.Options.Flag(string(name)); flag != "" && (len(c.layers) == 0 || c.changed(flag)) {
		return "--" + flag
	}
	return string(name)
}

// locateInFile returns the fault of a field of the file.
func (c *Configuration) locateInFile(path, message string) error {
	fault := yamlfault.Fault{Field: path, Message: message}
	from, line := c.origin(path)
	if from == nil {
		return errors.New(fault.In(""))
	}
	fault.Line = line
	return &placed{fault, from}
}

// validateLogging returns the faults of the configuration of the log.
func (c *Configuration) validateLogging() (errs []error) {
	gates := featuregate.NewFeatureGate()
	_ = logsapi.AddFeatureGates(gates) // fails only where a gate is added twice
	for _, fault := range logsapi.Validate(&c.Logging, gates, field.NewPath("logging")) {
		message := fault.ErrorBody()
		if from, _ := c.origin(fault.Field); from != nil && !c.changed(v1alpha1.Options.Flag(fault.Field)) {
			errs = append(errs, c.locateInFile(fault.Field, message))
			continue
		}
		errs = append(errs, fmt.Errorf("--%s: %s", v1alpha1.Options.Flag(fault.Field), message))
	}
	return errs
}
