package cmdline

import (
	"embed"
	"fmt"
	"io"
	"strings"
	"text/template"
)

//go:embed completion
var completionFiles embed.FS

// Shells returns the shells that [Completion] knows.
func Shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

var completionTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"all":    allCommands,
	"groups": groupNames,
	"inner":  innerGroupNames,
	"join":   strings.Join,
	// The texts of one line, as a word of the shell.
	"quote":      func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" },
	"quoteFish":  func(text string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'" },
	"quotePower": func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" },
}).ParseFS(completionFiles, "completion/*"))

// Completion writes the script by which a shell completes the commands, flags and values of a program.
func Completion(w io.Writer, shell string, program *Description) error {
	if err := completionTemplates.ExecuteTemplate(w, shell, program); err != nil {
		return fmt.Errorf("completion for %s: %w", shell, err)
	}
	return nil
}

// allCommands returns the program, its groups and its commands, each before those in it.
func allCommands(program *Description) (all []*Description) {
	program.Walk(func(d *Description) { all = append(all, d) })
	return all
}

// groupNames returns the names of the commands that have commands.
func groupNames(program *Description) (names []string) {
	for _, d := range program.Commands {
		if len(d.Commands) > 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// innerGroupNames returns the names of the groups in groups, such as "journal hold".
func innerGroupNames(program *Description) (names []string) {
	for i := range program.Commands {
		names = append(names, groupNames(&program.Commands[i])...)
	}
	return names
}
