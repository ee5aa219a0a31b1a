package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"machined/reconcile/resource"
)

// findKind returns the kind that a person means: in any case, in the plural,
// and without Status, Spec or Machine where that is clear. A status goes before
// a spec, since people ask what is.
func findKind(name string) (resource.Kind, bool) {
	name = strings.ToLower(name)
	for _, stem := range []string{name, strings.TrimSuffix(name, "s"), strings.TrimSuffix(name, "es")} {
		for _, full := range []string{stem, stem + "status", stem + "spec", "machine" + stem, "discovered" + stem} {
			for _, k := range resource.Kinds() {
				if strings.ToLower(k.String()) == full {
					return k, true
				}
			}
		}
	}
	return 0, false
}

// similarKinds returns the kinds whose name has something of a name that is
// none.
func similarKinds(name string) []string {
	var similar []string
	name = strings.ToLower(name)
	for _, k := range resource.Kinds() {
		full := strings.ToLower(k.String())
		stem := strings.TrimSuffix(strings.TrimSuffix(full, "status"), "spec")
		if len(name) >= 3 && (strings.HasPrefix(full, name) || strings.HasPrefix(name, stem) || strings.Contains(full, name)) {
			similar = append(similar, k.String())
		}
	}
	return similar
}

// listKinds prints the kinds and their namespaces.
func listKinds(w io.Writer) error {
	rows := [][]string{{"KIND", "NAMESPACE"}}
	for _, k := range resource.Kinds() {
		rows = append(rows, []string{k.String(), k.Namespace()})
	}
	return writeTable(w, rows)
}

// kindArgument checks the arguments of get; what is wrong with them is followed
// by what could be right.
func kindArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 2 {
		return usagef("%s takes a KIND and an ID, and not %d arguments", cmd.Name(), len(args))
	}
	var fault error
	if len(args) == 0 {
		fault = usagef("%s needs a KIND, one of the above", cmd.Name())
	} else if _, ok := findKind(args[0]); !ok {
		advice := "the kinds are above"
		if similar := similarKinds(args[0]); len(similar) > 0 {
			advice = fmt.Sprintf("did you mean %s?", strings.Join(similar, " or "))
		}
		fault = usagef("unknown kind %q; %s", args[0], advice)
	}
	if fault != nil {
		if err := listKinds(cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	return fault
}

func completeKinds(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, k := range resource.Kinds() {
		names = append(names, k.String()+"\tnamespace "+k.Namespace())
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func namespaces() []string {
	var names []string
	for _, k := range resource.Kinds() {
		if !slices.Contains(names, k.Namespace()) {
			names = append(names, k.Namespace())
		}
	}
	return names
}

func namespaceFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVar(namespace, "namespace", "", "namespace of the kind: "+strings.Join(namespaces(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("namespace", cobra.FixedCompletions(namespaces(), cobra.ShellCompDirectiveNoFileComp))
}

// checkNamespace refuses a namespace that is not the kind's; an empty one stands
// for it.
func checkNamespace(kind resource.Kind, namespace string) error {
	if namespace != "" && namespace != kind.Namespace() {
		return usagef("%s is in namespace %q, not %q", kind, kind.Namespace(), namespace)
	}
	return nil
}
