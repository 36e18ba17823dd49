package cmdline

import (
	"fmt"
	"strings"
)

// A Manual is what manual pages say besides the table of commands.
type Manual struct {
	Version, Date string // the version of the program, and the day of its commit
	About         string // the program in few words
	Status        string // what exit statuses mean
}

// ManPages returns the manual pages of a program by the names of their files: threeds.1, and one for each command. The
// page of a group, such as threeds-key.1, has all commands of the group.
func (m *Manual) ManPages(program *Description) map[string]string {
	pages := map[string]string{"threeds.1": m.overview(program)}
	for i := range program.Commands {
		c := &program.Commands[i]
		pages["threeds-"+c.Name+".1"] = m.page(c)
	}
	return pages
}

// overview returns the page of the program.
func (m *Manual) overview(program *Description) string {
	p := m.newPage("threeds", m.About)
	p.head("SYNOPSIS")
	p.line(".B threeds")
	p.text("COMMAND [ARGUMENT]...")
	p.head("COMMANDS")
	for _, c := range program.Commands {
		p.line(".TP")
		p.line(`.BR threeds\-` + escapeRoff(c.Name) + " (1)")
		p.text(asSentence(c.Does()))
	}
	p.status(m)
	return p.String()
}

// page returns the page of a command, or of a group with all its commands.
func (m *Manual) page(d *Description) string {
	p := m.newPage("threeds-"+d.Name, d.Does())
	var commands []Description
	d.Walk(func(c *Description) {
		if len(c.Commands) == 0 {
			commands = append(commands, *c)
		}
	})
	p.head("SYNOPSIS")
	for i := range commands {
		p.forms(&commands[i], i == 0)
	}
	if len(d.Commands) > 0 {
		p.head("COMMANDS")
	} else {
		p.head("DESCRIPTION")
	}
	for i := range commands {
		c := &commands[i]
		if len(d.Commands) > 0 {
			p.line(`.SS "threeds ` + escapeRoff(c.Name) + `"`)
		}
		for j, form := range c.Forms {
			if j > 0 {
				p.line(".PP")
				p.line(".B threeds " + escapeRoff(c.Name))
				p.text(form.Takes)
				p.line(".br")
			}
			p.text(asSentence(form.Does))
		}
		if len(d.Commands) == 0 && len(c.Flags) > 0 {
			p.head("OPTIONS")
		}
		for _, f := range c.Flags {
			p.line(".TP")
			name := `.B \-\-` + escapeRoff(f.Name)
			if f.Value != "" {
				name = `.BI \-\-` + escapeRoff(f.Name) + ` " ` + escapeRoff(f.Value) + `"`
			}
			p.line(name)
			p.text(asSentence(f.Usage))
		}
	}
	p.status(m)
	p.head("SEE ALSO")
	p.line(".BR threeds (1)")
	return p.String()
}

// A manPage is a page that is being written, in the macros of man(7).
type manPage struct{ strings.Builder }

func (m *Manual) newPage(name, does string) *manPage {
	p := &manPage{}
	title, version := escapeRoff(strings.ToUpper(name)), escapeRoff(m.Version)
	p.line(fmt.Sprintf(`.TH "%s" 1 "%s" "threeds %s" "threeds"`, title, m.Date, version))
	p.line(".nh") // a flag with a hyphen added is another flag
	p.line(".ad l")
	p.head("NAME")
	p.line(escapeRoff(name) + ` \- ` + escapeRoff(does))
	return p
}

func (p *manPage) line(text string) { p.WriteString(text + "\n") }

func (p *manPage) head(title string) { p.line(`.SH "` + title + `"`) }

// text writes a text that is filled into lines.
func (p *manPage) text(text string) {
	p.line(`\&` + escapeRoff(strings.Join(strings.Fields(text), " ")))
}

// forms writes each way to call a command.
func (p *manPage) forms(d *Description, isFirst bool) {
	for i, form := range d.Forms {
		if i > 0 || !isFirst {
			p.line(".br")
		}
		p.line(".B threeds " + escapeRoff(d.Name))
		if form.Takes != "" {
			p.text(form.Takes)
		}
	}
}

func (p *manPage) status(m *Manual) {
	p.head("EXIT STATUS")
	p.text(m.Status)
}

// asSentence returns a text with a capital at its beginning and a full stop at its end.
func asSentence(text string) string {
	text = strings.TrimSuffix(strings.TrimSpace(text), ".")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// escapeRoff returns a text for roff: its hyphens are those that one types, and no character is a command.
func escapeRoff(text string) string {
	return roffEscapes.Replace(text)
}

var roffEscapes = strings.NewReplacer(
	`\`, `\e`, "-", `\-`, "'", `\(aq`, `"`, `\(dq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`,
)
