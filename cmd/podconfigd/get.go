package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

func newGetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get", Short: "Display resources of the daemon"}
	var flags clientFlags
	var output, namespace string
	var mirrorPods, all bool
	pods := &cobra.Command{
		Use:     "pods [NAME…]",
		Aliases: []string{"pod", "po"},
		Short:   "List the pods that belong on the node",
		Long: `List the pods that belong on the node.

The list has the pods of all namespaces. Use --namespace to select one namespace.
Pass one or more names to select pods by name.`,
		Example: `  # List all pods
  podconfigd get pods

  # List the pods of one namespace as JSON
  podconfigd get pods -n kube-system -o json

  # List one pod with its UID and images
  podconfigd get pods web-node1 -o wide`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := checkOutput(output, "json", "yaml", "name", "wide"); err != nil {
				return err
			}
			c, err := flags.client(cmd)
			if err != nil {
				return err
			}
			list, err := c.Pods(cmd.Context())
			if err != nil {
				return err
			}
			if all {
				namespace = "" // as for kubectl
			}
			list.Items = slices.DeleteFunc(list.Items, func(pod v1.Pod) bool {
				_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
				return (mirror && !mirrorPods) || (namespace != "" && pod.Namespace != namespace) || (len(names) > 0 && !slices.Contains(names, pod.Name))
			})
			missing := notFound(names, list.Items)
			if missing != nil && len(list.Items) == 0 {
				return missing
			}
			var running runtimePods
			if output == "" || output == "wide" {
				if running, err = askRuntime(cmd.Context(), c); err != nil {
					return err
				}
			}
			return cmp.Or(printPods(cmd.OutOrStdout(), cmd.ErrOrStderr(), output, list, running), missing)
		},
	}
	flags.add(pods)
	pods.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: json, yaml, name, wide. If empty, prints a table.")
	pods.Flags().StringVarP(&namespace, "namespace", "n", "", "Namespace of the pods. If empty, lists all namespaces.")
	pods.Flags().BoolVar(&mirrorPods, "mirror-pods", true, "Include mirror pods, which a kubelet creates in the apiserver for its static pods.")
	pods.Flags().BoolVarP(&all, "all-namespaces", "A", false, "List the pods of all namespaces and ignore --namespace. This is the default without --namespace.")
	cmd.AddCommand(pods)
	return cmd
}

// notFound returns one error that lists every name without a pod, or nil.
func notFound(names []string, pods []v1.Pod) error {
	var errs []error
	for _, name := range names {
		if !slices.ContainsFunc(pods, func(pod v1.Pod) bool { return pod.Name == name }) {
			errs = append(errs, fmt.Errorf("pod %q not found", name))
		}
	}
	return errors.Join(errs...)
}

func printPods(out, notes io.Writer, output string, list *v1.PodList, running runtimePods) error {
	switch output {
	case "json", "yaml":
		list.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}
		for i := range list.Items {
			list.Items[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		}
		return printObject(out, output, list)
	case "name":
		for i := range list.Items {
			if _, err := fmt.Fprintln(out, "pod/"+list.Items[i].Name); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(notes, "No resources found")
		return nil
	}
	header := []string{"NAMESPACE", "NAME", "SOURCE", "CONTAINERS", "SEEN"}
	if running != nil {
		header = []string{"NAMESPACE", "NAME", "SOURCE", "READY", "STATUS", "RESTARTS", "AGE", "SEEN"}
	}
	if output == "wide" {
		if running != nil {
			header = append(header, "IP")
		}
		header = append(header, "UID", "IMAGES")
	}
	rows := make([][]string, len(list.Items))
	for i := range list.Items {
		rows[i] = podRow(&list.Items[i], running, output == "wide")
	}
	return printTable(out, header, rows)
}

func podRow(pod *v1.Pod, running runtimePods, wide bool) []string {
	var seen *time.Time
	if t, err := time.Parse(time.RFC3339Nano, pod.Annotations[config.ConfigFirstSeenAnnotationKey]); err == nil {
		seen = &t
	}
	row := []string{pod.Namespace, pod.Name, pod.Annotations[config.ConfigSourceAnnotationKey]}
	if running != nil {
		row = append(row, running.columns(pod)...)
	} else {
		row = append(row, fmt.Sprint(len(pod.Spec.Containers)))
	}
	row = append(row, age(seen))
	if wide {
		if running != nil {
			row = append(row, cmp.Or(pod.Status.PodIP, "<none>"))
		}
		row = append(row, string(pod.UID), strings.Join(images(pod), ","))
	}
	return row
}

func images(pod *v1.Pod) []string {
	names := make([]string, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		names[i] = pod.Spec.Containers[i].Image
	}
	return names
}
