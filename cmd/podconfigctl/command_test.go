package main

import (
	"testing"

	"github.com/podconfigd/podconfigd/internal/command/commandtest"
)

//go:generate go test . -run ^TestReference$ -update

func TestReference(t *testing.T) {
	commandtest.Environment(t)
	commandtest.Reference(t, newRootCommand(), `podconfigctl reads and controls [podconfigd](podconfigd.md), and checks its configuration and its manifests.
[limits.md](limits.md#numbers) has the ranges of numbers.`)
}

func TestManPages(t *testing.T) {
	commandtest.Environment(t)
	commandtest.ManPages(t, newRootCommand())
}

// The help has all that the help of cobra has, and the flags under their headings.
func TestHelp(t *testing.T) {
	commandtest.Help(t, newRootCommand(), nil, "Usage:\n  podconfigctl\n  podconfigctl [command]\n", "\nExamples:\n", "\nAvailable Commands:\n", "\n  watch       Print",
		`Use "podconfigctl [command] --help"`)
	commandtest.Help(t, newRootCommand(), []string{"get", "pods"}, "\nAliases:\n  pods, pod, po\n", "\nFlags:\n", "\nConnection flags:\n")
	commandtest.ValueNames(t, newRootCommand())
}
