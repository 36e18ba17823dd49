package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	cardsStart = "<!-- cards: generated from sandbox/scenarios/cards.txt -->\n"
	cardsEnd   = "<!-- end of cards -->\n"
)

// cardPage is docs/test-cards.md with fresh tables between its marks, those of the texts
// in sandbox/scenarios.
func cardPage(root string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/test-cards.md"))
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name, start, end string
		tables           func(text []byte) (string, error)
	}{
		{"cards.txt", cardFinderStart, cardFinderEnd, cardFinder},
		{"cards.txt", cardsStart, cardsEnd, cardTables},
		{"merchants.txt", merchantsStart, merchantsEnd, merchantTable},
		{"v1.txt", v1Start, v1End, v1Tables},
	} {
		text, err := os.ReadFile(filepath.Join(root, "sandbox/scenarios", part.name))
		if err != nil {
			return nil, err
		}
		tables, err := part.tables(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		if page, err = between(page, part.start, part.end, tables); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// cardTables turns the sandbox's text into tables for people. It does not use the
// sandbox's parser, which drops the comments beside the lines.
func cardTables(text []byte) (string, error) {
	var b strings.Builder
	inside := false
	err := eachLine(text, func(line, comment string) error {
		pattern, statements := splitCard(line)
		switch {
		case strings.HasPrefix(line, "table "):
			fmt.Fprintf(&b, "\n### %s\n\n| Card number | What it does | |\n| --- | --- | --- |\n", heading(strings.TrimPrefix(line, "table ")))
			inside = true
		case !inside || statements == "":
			return errUnknown
		default:
			does, err := cardWords(statements)
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", pattern, does, comment)
			return err
		}
		return nil
	})
	return b.String() + "\n", err
}

var errUnknown = errors.New("not understood")

// eachLine hands out the lines of a text that say something, each with the comment beside
// it. It stops at the first error.
func eachLine(text []byte, take func(line, comment string) error) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, comment, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := take(line, strings.TrimSpace(comment)); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

var cardPattern = regexp.MustCompile(`^([0-9.* ]*[0-9.*])\s+([a-z].*)$`)

func splitCard(line string) (pattern, statements string) {
	if part := cardPattern.FindStringSubmatch(line); part != nil {
		return part[1], part[2]
	}
	return line, ""
}

func heading(patterns string) string {
	if patterns == "*" {
		return "All other cards"
	}
	return "Cards " + patterns
}

// cardWording is for the statements of cards.txt.
var cardWording = []wording{
	{regexp.MustCompile(`^versions (.*)$`), "versions $1"},
	{regexp.MustCompile(`^method answers$`), "3DS Method"},
	{regexp.MustCompile(`^method none$`), "no 3DS Method"},
	{regexp.MustCompile(`^method silent$`), "3DS Method that never answers"},
	{regexp.MustCompile(`^answer ([A-Z])$`), "ARes `$1`"},
	{regexp.MustCompile(`^answer ([A-Z]) reason=([0-9]+)$`), "ARes `$1` with reason `$2`"},
	{regexp.MustCompile(`^challenge passes$`), "challenge, passes by itself"},
	{regexp.MustCompile(`^challenge fails$`), "challenge, fails by itself"},
	{regexp.MustCompile(`^challenge asks$`), "challenge, the cardholder decides"},
	{regexp.MustCompile(`^challenge outside$`), "challenge, confirmed in the app of the bank"},
	{regexp.MustCompile(`^challenge decoupled$`), "challenge that falls back to decoupled: RReq `D` with reason `29`"},
	{regexp.MustCompile(`^decoupled passes$`), "decoupled, if asked for: RReq `Y`"},
	{regexp.MustCompile(`^decoupled fails$`), "decoupled, if asked for: RReq `N` with reason `01`"},
	{regexp.MustCompile(`^decoupled expires$`), "decoupled, if asked for: RReq `U` with reason `24`"},
	{regexp.MustCompile(`^decoupled rejected$`), "decoupled, if asked for: RReq `R` with reason `11`"},
	{regexp.MustCompile(`^silence$`), "the directory server never answers"},
	{regexp.MustCompile(`^not enrolled$`), "not enrolled"},
	{regexp.MustCompile(`^only 3RI$`), "in 3RI"},
	{regexp.MustCompile(`^not 3RI$`), "in app and browser"},
	{regexp.MustCompile(`^info (.*)$`), "`cardholderInfo`: “$1”"},
	{regexp.MustCompile(`^cres padded$`), "`cres` with padding"},
	{regexp.MustCompile(`^cres completed$`), "CRes with `challengeCompletionInd`"},
	{regexp.MustCompile(`^page tall$`), "the page is taller than its frame"},
	{regexp.MustCompile(`^last eight <= ([0-9]+)$`), "last eight digits up to $1"},
}

func cardWords(statements string) (string, error) {
	var all []string
	for s := range strings.SplitSeq(statements, ";") {
		words, err := inWords(cardWording, strings.TrimSpace(s))
		if err != nil {
			return "", err
		}
		all = append(all, words)
	}
	return strings.Join(all, "; "), nil
}
