package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/verdict"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	emv "github.com/openthreeds/threeds/message"
)

// explain says what a message, an error code, or an element with a value means.
func (s *Server) explain(ctx context.Context, args map[string]string) (string, error) {
	data := []byte(args["text"])
	input, ok := inspect.Read(data)
	switch {
	case !ok:
		return s.explainWords(args["text"], args["scheme"])
	case input.Kind == "auth-body":
		return explainBody(data, args["scheme"])
	case input.Data == nil:
		return s.check(ctx, args)
	}
	m, err := emv.Parse(input.Data, emv.Limits{})
	if err != nil {
		return "", fmt.Errorf("text: it cannot be read: %w", err)
	}
	explainer := lanes.Explainer{Meaning: scheme.Public(args["scheme"]).Meaning}
	var b strings.Builder
	fmt.Fprintf(&b, "Kind: %s\n", input.Kind)
	for _, group := range explainer.Explain(m.MaskedJSON()) {
		fmt.Fprintf(&b, "\n%s\n", group.Name)
		for _, f := range group.Fields {
			fmt.Fprintf(&b, "- %s: %s (%s)\n", f.Name, f.Value, f.Meaning)
		}
	}
	return cardnumber.Mask(b.String()), nil
}

// explainBody says what /auth would make of a body.
func explainBody(data []byte, of string) (string, error) {
	x, err := verdict.ExplainText(data, check.ExplainOptions{Scheme: of, AllowMaskedCard: true}, time.Now())
	if err != nil {
		return "", fmt.Errorf("text: %w", err)
	}
	text, err := json.MarshalIndent(x.Shape(), "", "  ")
	return "What /auth would make of it:\n" + cardnumber.Mask(string(text)), err
}

var (
	words     = regexp.MustCompile(`[A-Za-z0-9]+`)
	errorCode = regexp.MustCompile(`(?i)^(?:(?:erro|error|errorcode|code|error code)\W+)?([1-4]\d\d)$`)
)

// explainWords explains an error code, or an element with or without a value.
func (s *Server) explainWords(text, of string) (string, error) {
	if m := errorCode.FindStringSubmatch(text); m != nil {
		number, err := strconv.Atoi(m[1])
		if err != nil {
			return "", err
		}
		found, err := s.search("error " + m[1])
		return fmt.Sprintf("errorCode %s: %s\n\n%s", m[1], emv.Code(number).Description(), found), err
	}
	const want = "text: it is no message, no error code such as 305, and no element such as transStatusReason 12; " +
		"look_up searches the documentation"
	found := words.FindAllString(text, 3)
	if len(found) == 0 || len(found) > 2 {
		return "", errors.New(want)
	}
	value := ""
	if len(found) == 2 {
		value = found[1]
	}
	lines := describeElement(found[0], value, of)
	if lines == nil {
		return "", errors.New(want)
	}
	return strings.Join(lines, "\n"), nil
}

// describeElement returns what an element means in the messages that have it, and what a value of it means; nil if no
// message has it. It does not return what is no value of the element.
func describeElement(name, value, of string) (lines []string) {
	add := func(line string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, t := range allTables() {
		i := slices.IndexFunc(t.Fields, func(f emv.Field) bool { return strings.EqualFold(f.Name, name) })
		if i < 0 {
			continue
		}
		f := &t.Fields[i]
		add(f.Name + ": " + f.Doc)
		if meaning := scheme.Public(of).Meaning(f.Name, value); meaning != "" {
			add(f.Name + " " + value + " at " + of + ": " + meaning)
		}
		if f.Codes == nil {
			continue
		}
		for _, c := range f.Codes.Values {
			if value == "" || strings.EqualFold(c.Value, value) {
				add(f.Name + " " + c.Value + ": " + c.Meaning)
			}
		}
		for _, r := range f.Codes.Ranges {
			if value == "" || len(value) == len(r.From) && r.From <= value && value <= r.To {
				meaning := "reserved"
				if r.DS {
					meaning = "defined by each card scheme; the argument scheme names one"
				}
				add(fmt.Sprintf("%s %s to %s: %s", f.Name, r.From, r.To, meaning))
			}
		}
	}
	return lines
}

// allTables returns the tables of all messages and objects, those of the newest version first.
func allTables() (all []*emv.Table) {
	for _, v := range slices.Backward(emv.Versions()) {
		for _, kind := range emv.Types() {
			all = append(all, emv.TableOf(kind, v))
		}
		for _, name := range emv.ObjectNames() {
			all = append(all, emv.ObjectTable(name, v))
		}
	}
	return slices.DeleteFunc(all, func(t *emv.Table) bool { return t == nil })
}
