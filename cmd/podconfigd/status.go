package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

func newStatusCommand() *cobra.Command {
	var flags clientFlags
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of the daemon",
		Long: `Show the status of the daemon:

- its node, instance and revision
- each source, and what is wrong with it
- the verdict on each manifest
- the container runtime, if the daemon has one
- each subscriber, and its lag in updates`,
		Example: `  # Show the status
  podconfigd status

  # Show the status as JSON
  podconfigd status -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, "json", "yaml"); err != nil {
				return err
			}
			c, err := flags.client(cmd)
			if err != nil {
				return err
			}
			status, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if output != "" {
				return printObject(cmd.OutOrStdout(), output, status)
			}
			return printStatus(cmd.OutOrStdout(), status)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: json, yaml. If empty, prints text.")
	return cmd
}

func printStatus(w io.Writer, s *v1alpha1.Status) error {
	fmt.Fprintf(w, "Node:      %s\nInstance:  %s\nRevision:  %d (resumable from %d)\nReady:     %t\nPods:      %d\nUp:        %s\n",
		s.NodeName, s.Instance, s.Revision, s.Compacted, s.Ready, s.Pods, age(&s.StartTime))
	if s.State != nil {
		fmt.Fprintf(w, "Stored:    %s\n", stored(s.State))
	}
	fmt.Fprintln(w)
	var rows [][]string
	for _, source := range s.Sources {
		rows = append(rows, sourceRow(&source))
	}
	if err := printTable(w, []string{"SOURCE", "SEEN", "PODS", "CHANGED", "STATE"}, rows); err != nil {
		return err
	}
	for _, source := range s.Sources {
		rows = nil
		shown, omitted := manifestsOf(&source)
		for _, m := range shown {
			rows = append(rows, manifestRow(&m))
		}
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := printTable(w, []string{"MANIFEST", "STATE", "POD", "MESSAGE"}, rows); err != nil {
			return err
		}
		for _, state := range slices.Sorted(maps.Keys(omitted)) {
			fmt.Fprintf(w, "and %d more %s\n", omitted[state], state)
		}
	}
	if s.Runtime != nil {
		if err := printRuntime(w, s.Runtime); err != nil {
			return err
		}
	}
	if len(s.Subscribers) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	rows = nil
	for _, sub := range s.Subscribers {
		since := sub.Since
		rows = append(rows, []string{
			fmt.Sprint(sub.ID), clientOf(&sub), sub.UserAgent, string(sub.Mode), fmt.Sprint(sub.Lag), fmt.Sprint(sub.Resets), age(&since),
		})
	}
	return printTable(w, []string{"SUBSCRIBER", "CLIENT", "AGENT", "MODE", "LAG", "RESETS", "AGE"}, rows)
}

// clientOf names the client of a subscriber: its process ID, or its address with the user.
func clientOf(sub *v1alpha1.Subscriber) string {
	switch {
	case sub.User != "":
		return sub.User + "@" + sub.Address
	case sub.Address != "":
		return sub.Address
	}
	return fmt.Sprint(sub.PID)
}

// stored describes where the journal is stored, or since when it is not.
func stored(s *v1alpha1.StateStatus) string {
	if !s.Stored {
		return fmt.Sprintf("no, for %s: %s", age(s.FailedSince), s.LastError)
	}
	return fmt.Sprintf("%s (%d files, %d KiB)", s.Dir, s.Segments, (s.Bytes+1023)/1024)
}

func manifestsOf(source *v1alpha1.SourceStatus) (shown []v1alpha1.Manifest, omitted map[v1alpha1.ManifestState]int) {
	switch {
	case source.File != nil:
		return source.File.Manifests, source.File.ManifestsOmitted
	case source.HTTP != nil:
		return source.HTTP.Manifests, source.HTTP.ManifestsOmitted
	}
	return nil, nil
}

func sourceRow(source *v1alpha1.SourceStatus) []string {
	state := "ok"
	if f := source.File; f != nil {
		state = f.Path + ", " + f.Watch
		if f.WatchError != "" {
			state += ": " + f.WatchError
		}
		if f.Absent {
			state += "; the path does not exist yet"
		}
	}
	if source.HTTP != nil {
		state = source.HTTP.URL
	}
	if source.API != nil {
		state = apiserverState(source.API)
	}
	if source.Degraded {
		held := "degraded, keeping the last pods"
		if !source.Seen && !source.Restored {
			held = "degraded, no pods read yet"
		}
		state += "; " + held + ": " + source.LastError
		if source.DegradedSince != nil {
			state += " (since " + source.DegradedSince.Local().Format(time.DateTime) + ")"
		}
	}
	seen := strconv.FormatBool(source.Seen)
	if source.Restored && !source.Seen {
		seen = "restored"
	}
	return []string{source.Name, seen, fmt.Sprint(source.Pods), age(source.LastChange), state}
}

func apiserverState(api *v1alpha1.APIStatus) string {
	state := api.Server
	switch {
	case api.Connected:
		state += ", watching"
	case api.NodeKnown:
		state += ", not connected"
	default:
		state += "; waiting until the apiserver has the node"
	}
	if api.LastEvent != nil {
		state += ", last event " + age(api.LastEvent) + " ago"
	}
	return fmt.Sprintf("%s, %d relists, %d watch restarts", strings.TrimLeft(state, ";, "), api.Relists, api.WatchRestarts)
}

func manifestRow(m *v1alpha1.Manifest) []string {
	pod := "<none>"
	if m.Name != "" {
		pod = m.Namespace + "/" + m.Name
	}
	message := m.Message
	for _, warning := range m.Warnings {
		if message != "" {
			message += "; "
		}
		message += "warning: " + warning
	}
	name := "<none>"
	if m.Path != "" {
		name = filepath.Base(m.Path)
	}
	return []string{name, string(m.State), pod, message}
}
