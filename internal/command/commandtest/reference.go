// Package commandtest has the tests of what the commands of both programs have: help, manual pages and a reference page.
package commandtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/option"
)

var update = flag.Bool("update", false, "write the reference page")

// Reference tests that the reference page of a program, in docs/reference, is that of its commands. "make generate" writes it.
// The flags in the section Connection are listed once.
func Reference(t *testing.T, root *cobra.Command, introduction string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "reference", root.Name()+".md")
	want := referenceOf(root, introduction)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date (%v): run go generate ./cmd/%s", path, err, root.Name())
	}
}

// Environment sets what the defaults of flags depend on to that of root.
func Environment(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", "/run")
	t.Setenv("PODCONFIGD_SOCKET", "")
	t.Setenv("PODCONFIGD_SERVER", "")
}

// referenceOf returns the reference page.
func referenceOf(root *cobra.Command, introduction string) []byte {
	out := new(bytes.Buffer)
	fmt.Fprintf(out, "# Reference of %s\n\n<!-- Generated from the commands by \"make generate\". Do not edit. -->\n\n%s\n", root.Name(), introduction)
	if rows := flagTable(root, true, nil); rows != "" {
		fmt.Fprintf(out, "\n## %s\n\n%s\n", root.Name(), rows)
	}
	connection := connectionFlags(root)
	if len(connection) > 0 {
		fmt.Fprintf(out, "## Flags of all client commands\n\nThese flags say how a command connects to the daemon.\n\n%s\n", table(connection, false))
	}
	walk(root, func(cmd *cobra.Command) {
		fmt.Fprintf(out, "## %s\n\n%s\n\n`%s`\n", cmd.CommandPath(), description(cmd), cmd.UseLine())
		if cmd.Flags().Lookup("kubelet-config") != nil {
			out.WriteString("\nThe flags are those of the [daemon](podconfigd.md#podconfigd).\n")
		} else if rows := flagTable(cmd, false, connection); rows != "" {
			fmt.Fprintf(out, "\n%s", rows)
		}
		out.WriteByte('\n')
	})
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
}

// connectionFlags returns the flags that say how a command connects to the daemon.
func connectionFlags(root *cobra.Command) (flags []*pflag.Flag) {
	walk(root, func(cmd *cobra.Command) {
		if flags == nil {
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if slices.Equal(f.Annotations[option.SectionKey], []string{"Connection"}) {
					flags = append(flags, f)
				}
			})
		}
	})
	return flags
}

// description is the long text of a command. Indented lines are a block.
func description(cmd *cobra.Command) string {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	var lines []string
	inBlock := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		code := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
		if code != inBlock && (code || line != "") {
			lines = append(lines, "```"+map[bool]string{true: "text"}[code])
			inBlock = code
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	if inBlock {
		lines = append(lines, "```")
	}
	return strings.Join(lines, "\n")
}

// walk visits the commands below a command that the help lists, without help and completion.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, below := range cmd.Commands() {
		if below.Hidden || below.Name() == "help" || below.Name() == "completion" {
			continue
		}
		visit(below)
		walk(below, visit)
	}
}

// flagTable is the table of the flags of a command, without those that are listed elsewhere.
func flagTable(cmd *cobra.Command, fields bool, without []*pflag.Flag) string {
	var flags []*pflag.Flag
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		for _, listed := range without {
			if listed.Name == f.Name && listed.Usage == f.Usage {
				return
			}
		}
		if !f.Hidden && f.Name != "help" {
			flags = append(flags, f)
		}
	})
	return table(flags, fields)
}

func table(flags []*pflag.Flag, fields bool) string {
	if len(flags) == 0 {
		return ""
	}
	paths := make(map[string][]string)
	for _, o := range v1alpha1.Options {
		paths[o.Flag] = append(paths[o.Flag], "`"+o.Path+"`")
	}
	rows := new(strings.Builder)
	header := "| flag | default | |\n|---|---|---|\n"
	if fields {
		header = "| flag | default | field | |\n|---|---|---|---|\n"
	}
	rows.WriteString(header)
	for _, f := range flags {
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := f.DefValue
		if value == "" || value == "[]" {
			value = ""
		} else {
			value = "`" + value + "`"
		}
		field := ""
		if fields {
			field = strings.Join(paths[f.Name], ", ") + " | "
		}
		fmt.Fprintf(rows, "| %s | %s | %s%s |\n", name, value, field, strings.NewReplacer("|", "\\|", "\n", " ").Replace(f.Usage))
	}
	return rows.String()
}

// helpWidth is the width of the help if the output is no terminal.
const helpWidth = 100

// Help tests that the help of a command has texts, and no line that is too long.
func Help(t *testing.T, root *cobra.Command, args []string, wants ...string) {
	t.Helper()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(append(args, "--help"))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimRight(line, "\n"); strings.HasSuffix(line, " ") || len(line) > helpWidth && strings.HasPrefix(line, "      ") {
			t.Errorf("the line %q", line)
		}
	}
}

// ValueNames tests that the help has after each flag what its value is: pflag takes the first text in back quotes of the usage.
func ValueNames(t *testing.T, root *cobra.Command) {
	t.Helper()
	name := regexp.MustCompile(`^[A-Za-z0-9:=,."\[\]]*$`)
	walk(root, func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(flag); !name.MatchString(value) {
				t.Errorf("%s --%s: the value is %q", cmd.CommandPath(), flag.Name, value)
			}
		})
	})
}

var manDir = flag.String("man", "", "write the manual pages into this directory")

// ManPages tests that each command has a manual page. hack/packages.sh writes them.
func ManPages(t *testing.T, root *cobra.Command) {
	t.Helper()
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	// The date of the pages is SOURCE_DATE_EPOCH.
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "podconfigd", Manual: "podconfigd"}, dir); err != nil {
		t.Fatal(err)
	}
	walk(root, func(cmd *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil || !strings.Contains(string(page), `\fB`+cmd.Root().Name()) {
			t.Errorf("the page of %q: %v, %q", cmd.CommandPath(), err, page)
		}
	})
}
