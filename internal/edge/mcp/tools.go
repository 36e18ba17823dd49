package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/docs"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// A tool is one that an assistant can call.
type tool struct {
	Name        string      `json:"name"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Input       schema      `json:"inputSchema"`
	Annotations annotations `json:"annotations"`

	call func(ctx context.Context, args map[string]string) (string, error)
}

// Annotations tell a client how careful it has to be with a tool.
type annotations struct {
	ReadOnly  bool `json:"readOnlyHint"`
	OpenWorld bool `json:"openWorldHint"` // the tool reaches other machines
}

// A schema is the JSON Schema of the arguments of a tool. All are texts.
type schema struct {
	Type       string              `json:"type"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
	Additional bool                `json:"additionalProperties"`
}

type property struct {
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Enum        []string `json:"enum,omitempty"`
}

// newSchema returns the schema of arguments, all of which are wanted that are in required.
func newSchema(properties map[string]property, required ...string) schema {
	return schema{"object", properties, append([]string{}, required...), false}
}

// text returns the property of an argument.
func text(description string) property { return property{Type: "string", Description: description} }

// tools returns the tools that there are.
func (s *Server) tools() []tool {
	ofScheme := property{"string", "The card scheme whose own rules and codes count as well.", scheme.Names()}
	checked := text("A message, a body for /auth, a line of a log, a creq or cres, or a form.")
	all := []tool{
		{
			Name: "explain", Title: "Explain a message, an error or a code",
			Description: "Says what each element of a message means; what /auth would make of a body; what an error code " +
				"such as 305 means; or what an element and a value such as transStatusReason 12 mean. Messages are shown masked.",
			Input: newSchema(map[string]property{
				"text": text(
					"A message, a body for /auth, a line of a log, an error code, or an element with or without a value."),
				"scheme": ofScheme,
			}, "text"),
			call: s.explain,
		},
		{
			Name: "check", Title: "Check a message",
			Description: "Checks a message against the table of its type and version, and says all that is wrong with it. " +
				"The message is shown masked.",
			Input: newSchema(map[string]property{"text": checked, "scheme": ofScheme}, "text"),
			call:  s.check,
		},
		{
			Name: "look_up", Title: "Look something up in the documentation",
			Description: "Searches the documentation of this release and returns the best passages with their pages. With " +
				"page in place of question it returns that page.",
			Input: newSchema(map[string]property{
				"question": text("A few words, such as ECI 06, or challenge in an app."),
				"page":     text("The page to read as a whole, as a passage names it, such as errors.md."),
			}),
			call: s.lookUp,
		},
	}
	if s.Admin != nil {
		all = append(all, tool{
			Name: "show_record", Title: "Show the record of an authentication",
			Description: "Shows what the journal has about one authentication: its steps and its masked messages. The look " +
				"is in the audit trail.",
			Input: newSchema(map[string]property{
				"id": text("The threeDSServerTransID of the authentication."),
			}, "id"),
			Annotations: annotations{OpenWorld: true},
			call:        s.Admin.showRecord,
		})
	}
	for i := range all {
		all[i].Annotations.ReadOnly = true
	}
	return all
}

// maxText is the length of the longest argument, in bytes.
const maxText = 256 << 10

// read returns the arguments of a tool as texts. The error names what the tool takes, and quotes nothing.
func (t *tool) read(given map[string]json.RawMessage) (map[string]string, error) {
	args := map[string]string{}
	for name, raw := range given {
		p, isKnown := t.Input.Properties[name]
		if !isKnown {
			return nil, fmt.Errorf("arguments: there is one that %s does not take; want only %s", t.Name, t.names())
		}
		var value string
		if json.Unmarshal(raw, &value) != nil || string(raw) == "null" {
			return nil, fmt.Errorf("%s: want a text", name)
		}
		switch value = strings.TrimSpace(value); {
		case len(value) > maxText:
			return nil, fmt.Errorf("%s: want at most %d bytes", name, maxText)
		case p.Enum != nil && !slices.Contains(p.Enum, value):
			return nil, fmt.Errorf("%s: want one of %s", name, strings.Join(p.Enum, ", "))
		}
		args[name] = value
	}
	for _, name := range t.Input.Required {
		if args[name] == "" {
			return nil, fmt.Errorf("%s: want a text that is not empty", name)
		}
	}
	return args, nil
}

// names returns the names of the arguments.
func (t *tool) names() string {
	var all []string
	for name := range t.Input.Properties {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// check says what is wrong with a message.
func (s *Server) check(_ context.Context, args map[string]string) (string, error) {
	data := []byte(args["text"])
	input, ok := inspect.Read(data)
	if !ok {
		return "", fmt.Errorf("text: there is no message in it%s", inspect.DescribeOther(data))
	}
	report, err := inspect.Check(input, args["scheme"], time.Now())
	if err != nil {
		return "", fmt.Errorf("text: it cannot be read: %w%s", err, inspect.DescribeOther(data))
	}
	var shown, wrong bytes.Buffer
	if err := report.Write(input.Kind, &shown, &wrong); err != nil {
		return "", err
	}
	verdict := "Nothing is wrong with it."
	if report.Faults > 0 {
		verdict = fmt.Sprintf("Faults: %d.", report.Faults)
	}
	return cardnumber.Mask(verdict + "\n" + wrong.String() + "\n" + shown.String()), nil
}

// passages is how many passages a search returns, passageText how many bytes of each.
const passages, passageText = 6, 700

// lookUp searches the documentation, or returns a page of it.
func (s *Server) lookUp(_ context.Context, args map[string]string) (string, error) {
	question, page := args["question"], args["page"]
	switch {
	case (question == "") == (page == ""):
		return "", errors.New("want either question or page")
	case page != "":
		source, err := docs.Files.ReadFile(page)
		if err != nil || !strings.HasSuffix(page, ".md") {
			return "", errors.New("page: there is no such page; search for it, and give its name as a passage has it")
		}
		return string(source), nil
	}
	hits, err := s.search(question)
	if err == nil && hits == "" {
		hits = "No page has these words. Try fewer."
	}
	return hits, err
}

// search returns the best passages for a question, as text.
func (s *Server) search(question string) (string, error) {
	if hasCard(question) {
		return "",
			errors.New("question: it has what looks like a card number in it; the page test-cards.md has the test cards")
	}
	hits, err := s.Site.Search(question)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, h := range hits[:min(len(hits), passages)] {
		passage := h.Text
		if len(passage) > passageText {
			passage = strings.ToValidUTF8(passage[:passageText], "") + " …"
		}
		fmt.Fprintf(&b, "%s (page %s)\n%s\n%s\n\n", h.Title, h.Page, h.Heading, passage)
	}
	return strings.TrimSpace(b.String()), nil
}
