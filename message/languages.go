package message

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// firstLanguage returns the first tag of an Accept-Language header, cut to at most limit
// characters by removing subtags from the end. A subtag of one character is removed with
// the subtag that it introduces (RFC 4647, section 3.4), and so is an empty subtag.
func firstLanguage(header string, limit int) string {
	tags := LanguageTags(header)
	if len(tags) == 0 {
		return header
	}
	tag := tags[0]
	if i := slices.IndexFunc(tags, isLanguageTag); i >= 0 {
		tag = tags[i]
	}
	for whole := tag; len(tag) > limit; {
		i := strings.LastIndexByte(tag, '-')
		for i > 1 && (tag[i-1] == '-' || tag[i-2] == '-') {
			i--
		}
		if i <= 1 {
			return whole
		}
		tag = tag[:i]
	}
	return tag
}

// isLanguageTag reports whether an entry of an Accept-Language header has the form of a language tag. That of all other
// languages, *, has not.
func isLanguageTag(tag string) bool {
	return allBytes([]byte(tag), func(c byte) bool { return isAlnum(c) || c == '-' })
}

// maxLanguageTags is how many tags LanguageTags returns at most. An AReq may have 99.
const maxLanguageTags = 200

// LanguageTags returns the first 200 tags of an Accept-Language header, each once, without weights, and the most wanted
// first. Underscores become hyphens, and a tag with the weight 0 is not wanted. RFC 9110, section 12.5.4.
func LanguageTags(header string) []string {
	type entry struct {
		tag    string
		weight float64
	}
	var entries []entry
	for part := range strings.SplitSeq(withHyphens(header), ",") {
		tag, parameter, _ := strings.Cut(part, ";")
		e := entry{strings.TrimSpace(tag), 1}
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			if weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				e.weight = weight
			}
		}
		if e.tag != "" && e.weight > 0 && !slices.ContainsFunc(entries, func(o entry) bool { return o.tag == e.tag }) {
			entries = append(entries, e)
		}
		if len(entries) == maxLanguageTags {
			break
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(b.weight, a.weight) })
	var tags []string
	for _, e := range entries {
		tags = append(tags, e.tag)
	}
	return tags
}

// normaliseAcceptLanguage takes acceptLanguage from browserLanguage if the version requires
// it and the request has none. Otherwise it removes tags that occur more than once.
func (n *normaliser) normaliseAcceptLanguage() {
	const name = "acceptLanguage"
	if !n.isDefined(name) {
		return
	}
	if !n.r.Has(name) {
		tags := slices.DeleteFunc(LanguageTags(n.r.Text("browserLanguage")), func(tag string) bool {
			return tag != "*" && !isLanguageTag(tag)
		})
		if len(tags) > 0 {
			set := n.r.SetRaw
			if n.r.placeholders["browserLanguage"] {
				set = n.r.SetPlaceholder
			}
			set(name, quotedList(tags[:min(len(tags), n.table.Field(name).Max)]))
			n.recordChange(name, -1, "taken from browserLanguage")
		}
		return
	}
	i := n.r.find(name)
	if i == 0 || n.m.nodes[i].kind != jsonArray {
		return
	}
	seen := make(map[string]bool)
	for k, j := 0, i+1; j < n.m.nodes[i].next; k, j = k+1, n.m.nodes[j].next {
		if n.m.nodes[j].kind != jsonString || n.isDropped(j) {
			continue
		}
		old := string(n.m.text(j, nil))
		if e, edited := n.r.edits[j]; edited {
			old = unquoted(e.text)
		}
		tag := withHyphens(old)
		switch {
		case seen[tag]:
			n.r.setEdit(j, edit{})
			n.recordChange(name, k, "dropped, it is there already")
		case tag != old:
			n.r.setEdit(j, edit{text: quote(tag)})
			n.recordChange(name, k, "written with hyphens")
		}
		seen[tag] = true
	}
}
