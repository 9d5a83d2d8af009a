package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/command/commandtest"
)

//go:generate go test . -run ^TestReference$ -update

func TestReference(t *testing.T) {
	commandtest.Environment(t)
	commandtest.Reference(t, newRootCommand(), `podconfigd is the daemon. A flag that has a field can also be set in [the configuration file](config.md).
[limits.md](limits.md#numbers) has the ranges of numbers. [podconfigctl](podconfigctl.md) has the commands that read and control
the daemon.`)
}

func TestManPages(t *testing.T) {
	commandtest.Environment(t)
	commandtest.ManPages(t, newRootCommand())
}

// The help has all that the help of cobra has, and the flags under their headings.
func TestHelp(t *testing.T) {
	commandtest.Help(t, newRootCommand(), nil, "Usage:\n  podconfigd [flags]\n  podconfigd [command]\n", "\nExamples:\n", "\nAvailable Commands:\n",
		"\n  prepare     Create", "\nSource flags:\n      --pod-manifest-path", "\nConfiguration file flags:\n      --config string", "\nLog flags:\n",
		`Use "podconfigd [command] --help"`)
	commandtest.ValueNames(t, newRootCommand())
}

// A command that moved names the new one in one line, whatever its arguments are.
func TestMovedCommands(t *testing.T) {
	for name, args := range map[string][]string{
		"watch":  {"watch"},
		"get":    {"--socket=s", "get", "pods", "-o", "json"},
		"config": {"config", "check", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			root := newRootCommand()
			root.SetOut(&out)
			root.SetErr(&errs)
			root.SetArgs(args)
			exit, ok := errors.AsType[*command.ExitError](root.ExecuteContext(t.Context()))
			want := "podconfigd: " + name + ` is a command of podconfigctl: use "podconfigctl ` + name + "\"\n"
			if !ok || exit.Code != 2 || errs.String() != want || out.Len() > 0 {
				t.Errorf("exit %v, %q, %q", exit, &errs, &out)
			}
		})
	}
}

// The help on such a command names the new one too: it has no flags.
func TestHelpOnMovedCommands(t *testing.T) {
	var out, errs bytes.Buffer
	root := newRootCommand()
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs([]string{"help", "watch"})
	const want = "podconfigd: watch is a command of podconfigctl: use \"podconfigctl watch\"\n"
	if err := root.ExecuteContext(t.Context()); err != nil || errs.String() != want || out.Len() > 0 {
		t.Errorf("%v, %q, %q", err, &errs, &out)
	}
}
