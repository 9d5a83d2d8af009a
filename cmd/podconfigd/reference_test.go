//go:build linux

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

//go:generate go test . -run ^TestReferenceOfTheCommands$ -update

var update = flag.Bool("update", false, "write the reference page of the commands")

// The reference page of the commands is that of the command tree. "make generate" writes it.
func TestReferenceOfTheCommands(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run") // so that the default of --socket is that of root
	t.Setenv("PODCONFIGD_SOCKET", "")
	t.Setenv("PODCONFIGD_SERVER", "")
	path := filepath.Join("..", "..", "docs", "reference", "commands.md")
	want := referenceOf(newRootCommand())
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil { //nolint:gosec // all may read it
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/reference/commands.md is not up to date (%v): run go generate ./cmd/podconfigd", err)
	}
}

const referenceIntroduction = `# Reference of the commands and flags

<!-- Generated from the commands by "make generate". Do not edit. -->

Without a subcommand, podconfigd runs the daemon. A flag of the daemon that has a field can also be set in
[the configuration file](config.md). [limits.md](limits.md#numbers) has the ranges of numbers.
`

// referenceOf returns the reference page.
func referenceOf(root *cobra.Command) []byte {
	out := new(bytes.Buffer)
	out.WriteString(referenceIntroduction)
	fmt.Fprintf(out, "\n## podconfigd\n\n%s\n", flagTable(root, nil, true))
	client := sharedFlags(root)
	fmt.Fprintf(out, "## Flags of all client commands\n\nThese flags say how a command connects to the daemon.\n\n%s\n", table(client, false))
	walkCommands(root, func(cmd *cobra.Command) {
		fmt.Fprintf(out, "## %s\n\n%s\n\n", cmd.CommandPath(), description(cmd))
		fmt.Fprintf(out, "`%s`\n", cmd.UseLine())
		if cmd.Flags().Lookup("pod-manifest-path") != nil && cmd.Name() != "validate" {
			out.WriteString("\nThe flags are those of the [daemon](#podconfigd).\n")
		} else if rows := flagTable(cmd, client, false); rows != "" {
			fmt.Fprintf(out, "\n%s", rows)
		}
		out.WriteByte('\n')
	})
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
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

func walkCommands(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, below := range cmd.Commands() {
		if below.Hidden || below.Name() == "help" || below.Name() == "completion" {
			continue
		}
		visit(below)
		walkCommands(below, visit)
	}
}

// sharedFlags are the flags that "watch" and "status" share, without the flags for the output.
func sharedFlags(root *cobra.Command) (shared []*pflag.Flag) {
	find := func(name string) *pflag.FlagSet {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			panic(err) // there is such a command
		}
		return cmd.Flags()
	}
	status := find("status")
	find("watch").VisitAll(func(f *pflag.Flag) {
		if other := status.Lookup(f.Name); other != nil && other.Usage == f.Usage {
			shared = append(shared, f)
		}
	})
	return shared
}

// flagTable is the table of the flags of a command, without those that are listed elsewhere.
func flagTable(cmd *cobra.Command, without []*pflag.Flag, fields bool) string {
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
