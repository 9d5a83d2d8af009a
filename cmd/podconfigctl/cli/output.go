package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/liggitt/tabwriter"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// IOStreams are what a command reads and writes.
type IOStreams = genericiooptions.IOStreams

// Streams returns the streams of a command.
func Streams(cmd *cobra.Command) IOStreams {
	return IOStreams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), ErrOut: cmd.ErrOrStderr()}
}

// Cell returns the text for a table cell.
func Cell(text string) string { return printable.Escape(text) }

// Address returns the address of a subscriber with its user; empty for a process.
func Address(s *v1alpha1.Subscriber) string {
	if s.User != "" {
		return s.User + "@" + s.Address
	}
	return s.Address
}

// OwnerHelp is the help of the flag --owner.
const OwnerHelp = "Select pods by one of their owners, as KIND/NAME or KIND.GROUP/NAME, for example deployment/web. Requires --owners of the daemon."

// TopOwner returns the last of the owners of a pod, as in deployment/web.
func TopOwner(owners []v1alpha1.Owner) string {
	if len(owners) == 0 {
		return "<none>"
	}
	top := &owners[len(owners)-1]
	return strings.ToLower(top.Kind) + "/" + top.Name
}

// Container returns the name of a container and its state, with the exit code if it is known.
func Container(c *v1alpha1.LookupContainer) (name, state string) {
	name, state = cmp.Or(c.Name, "<unknown>"), cmp.Or(c.State, "<unknown>")
	if c.Sandbox {
		name = "<sandbox>"
	}
	if c.ExitCode != nil {
		state += fmt.Sprintf(" (%d)", *c.ExitCode)
	}
	return name, state
}

// Age returns how long ago a time was.
func Age(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return duration.HumanDuration(time.Since(*t))
}

// Columns returns rows in columns, as kubectl prints them. Rows are aligned with those before.
type Columns struct {
	header []string
	out    bytes.Buffer
	table  *tabwriter.Writer
}

// NewColumns returns columns with a header, which comes before the first rows.
func NewColumns(header ...string) *Columns {
	c := &Columns{header: header}
	c.table = tabwriter.NewWriter(&c.out, 0, 8, 3, ' ', tabwriter.RememberWidths)
	return c
}

// Lines returns the lines of rows.
func (c *Columns) Lines(rows [][]string) (lines []string) {
	if c.header != nil {
		fmt.Fprintln(c.table, strings.Join(c.header, "\t"))
		c.header = nil
	}
	for _, row := range rows {
		clean := make([]string, len(row))
		for i, text := range row {
			clean[i] = Cell(text)
		}
		fmt.Fprintln(c.table, strings.Join(clean, "\t"))
	}
	_ = c.table.Flush() // a buffer does not fail
	for line := range strings.Lines(c.out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	c.out.Reset()
	return lines
}

// PrintTable prints rows in columns, as kubectl does.
func PrintTable(w io.Writer, header []string, rows [][]string) error {
	return PrintLines(w, NewColumns(header...).Lines(rows))
}

// PrintLines prints lines whose characters are printable.
func PrintLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// ColorFlag is the value of --color.
type ColorFlag string

// The values of --color.
const (
	ColorAuto   ColorFlag = "auto"
	ColorAlways ColorFlag = "always"
	ColorNever  ColorFlag = "never"
)

// Check returns an error if the value is not a known one.
func (c ColorFlag) Check() error {
	switch c {
	case ColorAuto, ColorAlways, ColorNever:
		return nil
	}
	return fmt.Errorf("--color: unknown value %q: expected one of auto, always, never", string(c))
}

// On reports whether the output is colored. See https://no-color.org.
func (c ColorFlag) On(out io.Writer) bool {
	return c == ColorAlways || c == ColorAuto && os.Getenv("NO_COLOR") == "" && Screen(out) != nil
}

// Screen returns the terminal that understands escape sequences, or nil.
func Screen(out io.Writer) *os.File {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" || !enableEscapes(f) {
		return nil
	}
	return f
}

// IsTerminal reports whether the output is a terminal of any kind.
func IsTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ChangeOf returns the column CHANGED of a change.
func ChangeOf(r *v1alpha1.HistoryRecord) string {
	changed := poddiff.Summary(r.Changes)
	switch {
	case r.Gap != "":
		return r.Gap
	case r.Name == "" && r.Op == v1alpha1.OpAdd:
		return "first set, nothing changed"
	case len(r.Changes) == 0:
		return ""
	case r.Op == v1alpha1.OpAdd:
		return "recreated: " + changed
	}
	return changed
}

// Owners are the names of users and groups, by "u" or "g" and their number.
type Owners map[string]string

// Columns returns the columns of a change from TIME to MODE.
func (o Owners) Columns(r *v1alpha1.HistoryRecord) []string {
	at, op, source, pod, path, owner, mode := "-", "GAP", "-", "-", "-", "-", "-"
	if r.Time != nil {
		at = r.Time.Local().Format(time.DateTime)
	}
	if r.Gap == "" {
		op = string(r.Op)
	}
	if r.Source != "" {
		source = r.Source
	}
	if r.Name != "" {
		pod = r.Namespace + "/" + r.Name
	}
	if f := r.File; f != nil {
		path, owner, mode = f.Path, o.user(f.UID)+":"+o.group(f.GID), f.Mode
	}
	return []string{at, op, source, pod, path, owner, mode}
}

// user returns the name of a user, or its number if it has no name here.
func (o Owners) user(id uint32) string {
	return o.name("u", id, func(number string) (string, error) {
		u, err := user.LookupId(number)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	})
}

func (o Owners) group(id uint32) string {
	return o.name("g", id, func(number string) (string, error) {
		g, err := user.LookupGroupId(number)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	})
}

func (o Owners) name(kind string, id uint32, lookup func(string) (string, error)) string {
	number := strconv.FormatUint(uint64(id), 10)
	name, ok := o[kind+number]
	if !ok {
		var err error
		if name, err = lookup(number); err != nil {
			name = number
		}
		o[kind+number] = name
	}
	return name
}
