package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// sentence turns a condition of a row into words. The language of conditions is small, so
// it is enough to replace patterns, in the order of wordings.
func sentence(expr string) string {
	for _, w := range wordings {
		expr = w.pattern.ReplaceAllStringFunc(expr, func(s string) string { return w.words(w.pattern.FindStringSubmatch(s)) })
	}
	return expr
}

const pathPattern = `([A-Za-z][A-Za-z0-9.]*)`

var wordings = []struct {
	pattern *regexp.Regexp
	words   func(part []string) string
}{
	{regexp.MustCompile(`present\(` + pathPattern + `\)`), func(p []string) string { return element(p[1]) + " is present" }},
	{regexp.MustCompile(`absent\(` + pathPattern + `\)`), func(p []string) string { return element(p[1]) + " is absent" }},
	{regexp.MustCompile(pathPattern + ` in \[([^\]]*)\]`), func(p []string) string { return element(p[1]) + " is " + choice(p[2]) }},
	{regexp.MustCompile(pathPattern + ` has \[([^\]]*)\]`), func(p []string) string { return element(p[1]) + " has " + choice(p[2]) }},
	{regexp.MustCompile(pathPattern + ` has "([^"]*)"`), func(p []string) string { return element(p[1]) + " has `" + p[2] + "`" }},
	{regexp.MustCompile(pathPattern + ` (==|!=) (?:"([^"]*)"|` + pathPattern + `)`), func(p []string) string {
		is := map[string]string{"==": " is ", "!=": " is not "}[p[2]]
		switch {
		case p[4] == "true" || p[4] == "false":
			return element(p[1]) + is + "`" + p[4] + "`"
		case p[4] != "":
			return element(p[1]) + map[string]string{"==": " equals ", "!=": " differs from "}[p[2]] + element(p[4])
		}
		return element(p[1]) + is + "`" + p[3] + "`"
	}},
}

// element names an element, and the message it is in if that is another one of the
// transaction ("areq.deviceChannel").
func element(path string) string {
	first, rest, ok := strings.Cut(path, ".")
	for _, t := range message.Types() {
		if ok && first == strings.ToLower(t.String()) {
			return "`" + rest + "` of the " + t.String()
		}
	}
	return "`" + path + "`"
}

// choice is a list of codes in words; runs of numbers become one range.
func choice(list string) string {
	var codes []string
	for _, quoted := range strings.Split(list, ",") {
		codes = append(codes, strings.Trim(strings.TrimSpace(quoted), `"`))
	}
	var words []string
	for i := 0; i < len(codes); {
		j := i
		for j+1 < len(codes) && follows(codes[j], codes[j+1]) {
			j++
		}
		if j-i >= 2 {
			words = append(words, "`"+codes[i]+"` to `"+codes[j]+"`")
			i = j + 1
			continue
		}
		words = append(words, "`"+codes[i]+"`")
		i++
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return words[0]
}

func follows(a, b string) bool {
	var x, y int
	if _, err := fmt.Sscanf(a+" "+b, "%d %d", &x, &y); err != nil {
		return false
	}
	return len(a) == len(b) && y == x+1
}

// valueOf says in words what the value of a field is.
func valueOf(f *message.Field) string {
	what := kindOf(f)
	if f.AltObject {
		what += ", or an object"
	}
	if !f.Array {
		if f.AltArray {
			what += "; an array of them is tolerated"
		}
		return what
	}
	return "array" + countOf(f) + " of: " + what
}

func countOf(f *message.Field) string {
	s := ""
	switch {
	case f.Max == 0 && f.Min > 1:
		s = fmt.Sprintf(" of %d or more", f.Min)
	case f.Max > 0 && f.Min == f.Max:
		s = fmt.Sprintf(" of %d", f.Max)
	case f.Max > 0:
		s = fmt.Sprintf(" of %d to %d", f.Min, f.Max)
	}
	if f.MaxChars > 0 {
		s += fmt.Sprintf(", at most %d characters in all,", f.MaxChars)
	}
	return s
}

// kindOf is the value, or one item of an array, without the array around it.
func kindOf(f *message.Field) string {
	least, most := bounds(f)
	size := ""
	switch {
	case most == 0:
	case least == most:
		size = fmt.Sprintf(", %d characters", most)
	case least <= 1:
		size = fmt.Sprintf(", up to %d characters", most)
	default:
		size = fmt.Sprintf(", %d to %d characters", least, most)
	}
	switch f.Kind {
	case message.OneOf:
		return codesOf(f)
	case message.Object:
		return fmt.Sprintf("[%s](objects.md#%s)", f.Type, strings.ToLower(f.Type))
	case message.Digits:
		words := strings.ReplaceAll(strings.TrimPrefix(size, ", "), "characters", "digits")
		if words == "" {
			words = "digits"
		}
		if f.Range != nil {
			words += fmt.Sprintf(", %d to %d", f.Range.Min, f.Range.Max)
		}
		return words
	case message.Text, message.Alnum, message.URL, message.AppURL, message.Email, message.Base64, message.Base64URL,
		message.JWS, message.JWE, message.Language, message.Offset, message.JSON, message.IP:
		words := f.Kind.String() + size
		if f.HTTPS {
			words = strings.Replace(words, "URL", "https URL", 1)
		}
		return words
	}
	return f.Kind.String() // the form of the others fixes their length
}

// bounds are the least and the greatest length of the value, or of an item of an array.
func bounds(f *message.Field) (least, most int) {
	if f.Array {
		return f.ItemMin, f.ItemMax
	}
	return f.Min, f.Max
}

// codesOf shows a short list, and links to a long one.
func codesOf(f *message.Field) string {
	if f.Only != "" || len(f.Codes.Values) <= 4 {
		var words []string
		for _, v := range f.Codes.Values {
			if !v.Tolerated {
				words = append(words, fmt.Sprintf("`%s` %s", v.Value, v.Meaning))
			}
		}
		return strings.Join(words, "; ") + byDS(f.Codes)
	}
	return fmt.Sprintf("[code](codes.md#%s)", strings.ToLower(f.List))
}

func byDS(c *message.Codes) string {
	for _, r := range c.Ranges {
		if r.DS {
			return fmt.Sprintf("; `%s` to `%s` by scheme", r.From, r.To)
		}
	}
	return ""
}

// presence is three letters for one category, those of APP, BRW and 3RI.
func presence(f *message.Field, cat message.Category) string {
	var b strings.Builder
	for _, ch := range message.Channels() {
		letter := string(f.Need.At(ch, cat))
		if letter == "-" {
			letter = "–"
		}
		b.WriteString(letter + " ")
	}
	return strings.TrimSpace(b.String())
}

// remarks say when a conditional field is needed and who sets it.
func remarks(f *message.Field) string {
	text := []string{upper(f.Doc) + "."}
	if strings.Contains(string(f.Need), "C") && f.Leg != message.DSToACS {
		text = append(text, condition(f))
	}
	if f.Forbid != "" {
		then := "Must be absent"
		if f.IgnoreForbidden {
			then = "Ignored"
		}
		text = append(text, then+" when "+sentence(f.Forbid)+".")
	}
	switch {
	case f.DS && f.Leg == message.EveryLeg:
		text = append(text, "Set by the directory server; what a requestor sends is left out.")
	case f.Leg == message.DSToACS:
		text = append(text, "Added by the directory server; what a 3DS Server sends is left out.")
	case f.Leg == message.ACSToDS:
		text = append(text, "Normally removed by the directory server; if not, passed on unread.")
	}
	switch {
	case f.Browser && f.Unchecked:
		text = append(text, "A value that no browser may be sent to is withheld from requestors, and its range stays.")
	case f.Browser:
		text = append(text, "Refused when it is no URL that a browser may be sent to.")
	}
	return strings.Join(text, " ")
}

func condition(f *message.Field) string {
	if f.When == "" {
		return "Presence by the rules of scheme and market."
	}
	s := "Required when " + sentence(f.When)
	if strings.Contains(string(f.Need), "R") {
		s = "Where C, required when " + sentence(f.When)
	}
	if f.PAOnly {
		s += ", for payments"
	}
	if f.Partial {
		s += ", and where scheme or market ask for it"
	}
	if f.Else == message.Absent {
		s += "; otherwise left out"
	}
	return s + "."
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
