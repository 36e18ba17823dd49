package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/message"
)

const (
	endsStart = "<!-- ends: generated from sandbox/scenarios/cards.txt -->\n"
	endsEnd   = "<!-- end of ends -->\n"
)

// A cardEnd is how the shop of docs/browser.md ends with a card.
type cardEnd struct {
	card  string
	does  string // in words
	press string // the button on the page of the bank, or below its text; "" for none
	ends  string // what the shop shows
}

// browserPage is docs/browser.md with a fresh table of all test cards and their ends.
func browserPage(root string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/browser.md"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "sandbox/scenarios/cards.txt"))
	if err != nil {
		return nil, err
	}
	prefixes, err := os.ReadFile(filepath.Join(root, "docs/test-cards.md"))
	if err != nil {
		return nil, err
	}
	ends, err := cardEnds(text)
	if err != nil {
		return nil, err
	}
	ends = mergeEnds(append(ends, coBadged(prefixes)...))
	var b strings.Builder
	b.WriteString("| Card number | What it does | Press | The shop shows |\n| --- | --- | --- | --- |\n")
	for _, e := range ends {
		press := ""
		if e.press != "" {
			press = "`" + e.press + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", e.card, e.does, press, e.ends)
	}
	return between(page, endsStart, endsEnd, b.String()+"\n")
}

// cardEnds returns a card for each line of the sandbox's text that a browser can meet, with its ends.
func cardEnds(text []byte) (all []cardEnd, err error) {
	var table string
	err = eachLine(text, func(line, _ string) error {
		if of, ok := strings.CutPrefix(line, "table "); ok {
			table = of
			return nil
		}
		pattern, statements := splitCard(line)
		if strings.Contains(statements, "only 3RI") {
			return nil
		}
		if !strings.Contains(statements, "answer ") && isDetail(statements) {
			statements += "; answer Y" // the cards of such lines in exampleCards are authenticated
		}
		cards, err := exampleCards(table, pattern, statements)
		if err != nil {
			return err
		}
		does, err := cardWords(statements)
		if err != nil {
			return err
		}
		ends, err := endsOf(statements)
		if err != nil {
			return err
		}
		for _, card := range cards {
			for _, e := range ends {
				e.card, e.does = card, strings.ReplaceAll(does, "in app and browser; ", "")
				all = append(all, e)
			}
		}
		return nil
	})
	return all, err
}

// mergeEnds has each card once for each button. What several lines say of it stands together.
func mergeEnds(all []cardEnd) (merged []cardEnd) {
	for _, e := range all {
		i := slices.IndexFunc(merged, func(m cardEnd) bool { return m.card == e.card && m.press == e.press })
		if i < 0 {
			merged = append(merged, e)
			continue
		}
		words := strings.Split(merged[i].does, "; ")
		last := len(words) - 1 // the ending
		for word := range strings.SplitSeq(e.does, "; ") {
			if !slices.Contains(words, word) {
				words = slices.Insert(words, last, word)
				last++
			}
		}
		merged[i].does = strings.Join(words, "; ")
	}
	return merged
}

// isDetail reports whether a line says something of cards, and not how they end.
func isDetail(statements string) bool {
	return !regexp.MustCompile(`\b(answer|challenge|decoupled|silence|not enrolled)\b`).MatchString(statements)
}

var lastEight = regexp.MustCompile(`last eight <= (\d+)`)

// exampleCards returns cards that a line of a table decides, none for a line that says nothing which others do not say.
func exampleCards(table, pattern, statements string) (cards []string, err error) {
	pattern = strings.ReplaceAll(pattern, " ", "")
	switch {
	case table == "*": // the last four digits decide
		last := strings.TrimPrefix(pattern, "*")
		switch {
		case strings.HasPrefix(last, ".."):
			last = "00" + last[2:]
		case strings.HasSuffix(last, ".."):
			last = strings.Replace(last[:2], ".", "0", 1) + "03"
		default:
			last = last[:1] + "003"
		}
		return []string{"4000 0000 0000 " + last}, nil
	case pattern == "*" && strings.Contains(table, "9000*"):
		return nil, nil
	case pattern == "*" && strings.Contains(table, "*"): // beginnings
		for word := range strings.FieldsSeq(table) {
			cards = append(cards, grouped((strings.TrimSuffix(word, "*") + strings.Repeat("0", 16))[:16]))
		}
		return cards, nil
	case pattern == "*":
		for word := range strings.SplitSeq(table, ",") {
			cards = append(cards, strings.TrimSpace(word))
		}
		return cards, nil
	case len(pattern) == len("9000*"):
		return []string{grouped(pattern[:4] + "105500000000")}, nil
	}
	card := strings.Replace(pattern[:8], ".", "1", 1)
	if m := lastEight.FindStringSubmatch(statements); m != nil {
		return []string{grouped(card + m[1])}, nil
	}
	if strings.HasPrefix(card[4:], "1050") {
		return []string{grouped(card + "99999999")}, nil
	}
	if strings.Contains(pattern, "*") && len(pattern) == 9 {
		return []string{grouped(card + "00000000")}, nil
	}
	return nil, errUnknown
}

// grouped writes a card number in groups of four digits.
func grouped(card string) string {
	var groups []string
	for i := 0; i < len(card); i += 4 {
		groups = append(groups, card[i:min(i+4, len(card))])
	}
	return strings.Join(groups, " ")
}

var answerWith = regexp.MustCompile(`answer ([A-Z])(?: reason=(\d+))?`)

// endsOf returns how an authentication in a browser ends, by the statements of a line.
func endsOf(statements string) ([]cardEnd, error) {
	completed := func(status, reason string) string {
		members := map[string]string{"transStatus": status, "transStatusReason": reason}
		return ending(api.StatusCompleted, members, 0)
	}
	refused := []cardEnd{{ends: ending(api.StatusFailed, nil, message.BadTransactionData)}}
	switch {
	case strings.Contains(statements, "not enrolled"):
		return []cardEnd{{ends: describeEnd(outcome.NewEnding(api.StatusCompleted, "", outcome.Messages{}))}}, nil
	case strings.Contains(statements, "silence"):
		return []cardEnd{{ends: ending(api.StatusFailed, nil, 0)}}, nil
	case strings.Contains(statements, "decoupled"): // the shop does not ask for it
		return refused, nil
	case strings.Contains(statements, "challenge passes"):
		return []cardEnd{{ends: completed("Y", "")}}, nil
	case strings.Contains(statements, "challenge fails"):
		return []cardEnd{{ends: completed("N", "")}}, nil
	case strings.Contains(statements, "challenge asks"):
		canceled := ending(api.StatusCompleted, map[string]string{"transStatus": "N", "challengeCancel": "01"}, 0)
		return []cardEnd{{press: "submit", ends: completed("Y", "")}, {press: "cancel", ends: canceled}}, nil
	case strings.Contains(statements, "challenge outside"):
		return []cardEnd{{press: "approve", ends: completed("Y", "")}, {press: "decline", ends: completed("N", "")}}, nil
	}
	if m := answerWith.FindStringSubmatch(statements); m != nil {
		e := cardEnd{ends: completed(m[1], m[2])}
		if strings.Contains(statements, "info ") {
			e.press = "continue" // below the text of the bank
		}
		return []cardEnd{e}, nil
	}
	return nil, errUnknown
}

// ending returns result and action as the shop shows them. Without members no message has come, and without a code no
// Erro.
func ending(status api.Status, members map[string]string, code message.Code) string {
	var m outcome.Messages
	if members != nil {
		text, err := json.Marshal(members)
		if err != nil {
			panic(err) // strings can be encoded
		}
		if m.ARes, err = message.Parse(text, message.Limits{}); err != nil {
			panic(err)
		}
		if members["challengeCancel"] != "" {
			m.RReq = m.ARes
		}
	}
	end := outcome.NewEnding(status, "visa", m)
	if code != 0 {
		end.Error = &api.OutcomeError{Component: "D", Code: code.String()}
	}
	return describeEnd(end)
}

// describeEnd returns result and action of an ending as the shop shows them.
func describeEnd(end outcome.Ending) string {
	o := outcome.Of(end)
	return fmt.Sprintf("%s: %s", o.Result, o.Next.Action)
}

var coBadgedRow = regexp.MustCompile("(?m)^\\| (\\d+) \\| (`\\w+`, and co-badged: `\\w+`)")

// coBadged returns a card for each row of docs/test-cards.md with a prefix of co-badged cards.
func coBadged(page []byte) (all []cardEnd) {
	for _, m := range coBadgedRow.FindAllSubmatch(page, -1) {
		card := (string(m[1]) + "000000000000")[:12] + "0003"
		ends, err := endsOf("answer Y")
		if err != nil {
			panic(err) // a status that there is
		}
		ends[0].card, ends[0].does = grouped(card), string(m[2])
		all = append(all, ends...)
	}
	return all
}
