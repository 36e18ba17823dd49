package main

import (
	"fmt"
	"regexp"
)

const (
	v1Start = "<!-- 1.0.2: generated from sandbox/scenarios/v1.txt -->\n"
	v1End   = "<!-- end of 1.0.2 -->\n"
)

var (
	v1Card       = regexp.MustCompile(`^card +([0-9.* ]*[0-9.*]) +([a-z].*)$`)
	merchantLine = regexp.MustCompile(`^merchant +(\S+) +(.*)$`)
)

// v1Tables turns the sandbox's text on 3-D Secure 1.0.2 into tables for people.
func v1Tables(text []byte) (string, error) {
	cards := "\n### Cards in 1.0.2\n\n| Card number | What it does | |\n| --- | --- | --- |\n"
	merchants := "\n### Merchant ids that break something in 1.0.2\n\n| `merchant[id]` | What goes wrong |\n| --- | --- |\n"
	err := eachLine(text, func(line, comment string) error {
		card, merchant := v1Card.FindStringSubmatch(line), merchantLine.FindStringSubmatch(line)
		part := card
		if card == nil {
			part = merchant
		}
		if part == nil {
			return errUnknown
		}
		does, err := inWords(v1Wording, part[2])
		if card != nil {
			cards += fmt.Sprintf("| `%s` | %s | %s |\n", part[1], does, comment)
		} else {
			merchants += fmt.Sprintf("| `%s` | %s |\n", part[1], does)
		}
		return err
	})
	return cards + merchants + "\n", err
}

// v1Wording is for the lines of v1.txt.
var v1Wording = []wording{
	{regexp.MustCompile(`^status ([A-Z])$`), "enrolled `Y`, status `$1`"},
	{regexp.MustCompile(`^status ([A-Z]) broken$`), "enrolled `Y`, status `$1` under a broken signature"},
	{regexp.MustCompile(`^enrolled ([A-Z])$`), "enrolled `$1`"},
	{regexp.MustCompile(`^silence$`), "the directory server never answers"},
	{regexp.MustCompile(`^outside$`), "in no card range, enrolled `N`"},
	{regexp.MustCompile(`^VERes ireq ([0-9]+) (.*)$`), "the directory server refuses: IReq $1, $2"},
	{regexp.MustCompile(`^VERes error ([0-9]+) (.*)$`), "the directory server answers Error $1, $2"},
	{regexp.MustCompile(`^VERes silence$`), "the directory server never answers"},
	{regexp.MustCompile(`^VERes status ([0-9]+)$`), "the directory server answers HTTP status $1"},
	{regexp.MustCompile(`^VERes garbage$`), "the directory server answers with a page of HTML"},
	{regexp.MustCompile(`^VERes cut$`), "half a VERes"},
	{regexp.MustCompile(`^VERes twice$`), "two VERes in one answer"},
	{regexp.MustCompile(`^VERes critical$`), "VERes with an unknown critical extension"},
	{regexp.MustCompile(`^VERes other id$`), "VERes with another Message id"},
	{regexp.MustCompile(`^VERes other acctID$`), "VERes with the card number as acctID"},
	{regexp.MustCompile(`^VERes other url$`), "VERes with an issuer's address that is plain http and names a user"},
	{regexp.MustCompile(`^PARes ireq ([0-9]+) (.*)$`), "PARes `U` with IReq $1, $2"},
	{regexp.MustCompile(`^PARes error ([0-9]+) (.*)$`), "the issuer answers Error $1, $2"},
	{regexp.MustCompile(`^PARes other id$`), "PARes with another Message id"},
	{regexp.MustCompile(`^PARes other (.*)$`), "PARes, signed, with another $1"},
	{regexp.MustCompile(`^PARes chain$`), "PARes signed under another scheme's root"},
	{regexp.MustCompile(`^PARes root$`), "PARes signed under an untrusted root of the right name"},
	{regexp.MustCompile(`^PARes signature$`), "PARes with another signature value"},
	{regexp.MustCompile(`^PARes edited$`), "PARes whose amount was changed after signing"},
	{regexp.MustCompile(`^PARes unsigned$`), "PARes without a signature"},
	{regexp.MustCompile(`^PARes reference$`), "PARes whose signature names something else"},
	{regexp.MustCompile(`^PARes wrapped$`), "a forged PARes before the signed one"},
}
