package session

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/charset"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/message"
)

// readBrowser keeps what a page sent, and records what was changed in the members that the request left to the page.
func readBrowser(r *txn.Record, data BrowserData) {
	kept, changes := readBrowserData(data, r.MessageVersion())
	r.Page.Data = kept
	changes = slices.DeleteFunc(changes, func(c message.Change) bool {
		return !slices.Contains(r.Page.Awaited, c.Path.Name())
	})
	r.Changes = append(r.Changes, auth.DescribeChanges(changes)...)
	for _, c := range changes {
		n := api.Correction{Pointer: faults.Pointer(c.Path), Rule: c.What}
		if name := c.Path.Name(); check.IsImpersonal(c.Path) {
			n.Found, n.Sent = textAsJSON(charset.Decode(data[name])), textAsJSON(kept[name])
		}
		if len(r.Corrections) < check.MaxCorrections {
			r.Corrections = append(r.Corrections, n)
		}
	}
}

// textAsJSON returns a text as JSON; nil if there is none, or too much to be kept with a correction.
func textAsJSON(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil || text == "" || len(raw) > check.MaxCorrectionValue {
		return nil
	}
	return raw
}

// These texts say what readBrowserData did to members that the browser did not send, or sent in a form that no AReq may
// have.
const (
	changeDecoded  = "read as ISO 8859-1, for it is not UTF-8"
	changeLeftOut  = "left out, it is not what the version asks for"
	changeTags     = "without the entries that are no language tags"
	changeTaken    = "taken from Accept-Language"
	changeAnyType  = "any, for the browser has sent no Accept"
	changeAny      = "any, for the browser has sent no Accept-Language"
	changeNotKnown = "not known, for the browser has told none"
)

// undetermined is the language tag of an unknown language (RFC 5646, section 4.1).
const undetermined = "und"

var (
	languageTag   = regexp.MustCompile(`^[0-9A-Za-z]+(-[0-9A-Za-z]+)*$`)
	languageRange = regexp.MustCompile(`^(\*|[0-9A-Za-z]+)(-(\*|[0-9A-Za-z]+))*$`)
)

// readBrowserData returns what is kept of the data of a page, and what was changed. It corrects the members as /auth
// corrects those of a requestor, and leaves out what cannot be sent. A header that is missing has the meaning that HTTP
// gives to that: any type, any language. Nothing else is filled in. acceptLanguage becomes tags with commas between
// them.
func readBrowserData(data BrowserData, v message.Version) (BrowserData, []message.Change) {
	kept, changes := BrowserData{}, []message.Change(nil)
	change := func(name, what string) {
		changes = append(changes, message.Change{Path: message.Path(name), What: what})
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		isKept := check.IsBrowserMember(name) || slices.Contains(pageMembers, name) || name == "challengeWindowSize" ||
			name == canShowSPC
		if !isKept || data[name] == "" {
			continue
		}
		kept[name] = charset.Decode(data[name])
		if kept[name] != data[name] {
			change(name, changeDecoded)
		}
	}
	if kept["browserAcceptHeader"] == "" {
		kept["browserAcceptHeader"] = "*/*" // RFC 9110, section 12.5.1
		change("browserAcceptHeader", changeAnyType)
	}
	for _, name := range readLanguages(kept, v) {
		change(name.member, name.what)
	}
	request := map[string]any{
		"messageType": "AReq", "messageVersion": v.String(), "deviceChannel": check.Browser, "messageCategory": "01",
	}
	table := message.TableOf(message.AReq, v)
	for name, value := range kept {
		switch f := table.Field(name); {
		case f == nil || !check.IsBrowserMember(name):
		case f.Kind == message.Bool:
			request[name] = value == "true"
		case f.Array:
			request[name] = strings.Split(value, ",")
		default:
			request[name] = value
		}
	}
	text, err := json.Marshal(request)
	if err != nil {
		return kept, changes // texts can be encoded
	}
	msg, err := message.ReadRequest(text, message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return kept, changes // json.Marshal made the text, so this does not happen
	}
	for _, c := range msg.Normalise() {
		if check.IsBrowserMember(c.Path.Name()) {
			changes = append(changes, c)
		}
	}
	areq, problems := msg.Build(message.Context{})
	for name := range request {
		if check.IsBrowserMember(name) && areq.Text(name) != "" {
			kept[name] = areq.Text(name)
		}
	}
	for _, p := range problems {
		if name := p.Path.Name(); p.Code != message.Missing && check.IsBrowserMember(name) && kept[name] != "" {
			delete(kept, name)
			change(name, changeLeftOut)
		}
	}
	return kept, changes
}

// A languageChange is what readLanguages did to a member.
type languageChange struct{ member, what string }

// readLanguages makes acceptLanguage a list of tags with commas between them. Where the browser sent only one of
// browserLanguage and acceptLanguage, it sets the other from it.
func readLanguages(kept BrowserData, v message.Version) (changes []languageChange) {
	const own, accepted = "browserLanguage", "acceptLanguage"
	f := message.TableOf(message.AReq, message.V231).Field(accepted)
	all := message.LanguageTags(kept[accepted])
	tags := slices.DeleteFunc(slices.Clone(all), func(tag string) bool {
		return len(tag) > f.ItemMax || !languageRange.MatchString(tag)
	})
	tags = tags[:min(len(tags), f.Max)]
	if len(tags) < len(all) && v >= message.V231 {
		changes = append(changes, languageChange{accepted, changeTags})
	}
	isTag := func(tag string) bool { return languageTag.MatchString(tag) }
	told := message.LanguageTags(kept[own])
	isNeeded := v < message.V231 || kept["browserJavascriptEnabled"] != "false"
	if !slices.ContainsFunc(told, isTag) && isNeeded {
		language, what := undetermined, changeNotKnown
		if i := slices.IndexFunc(tags, isTag); i >= 0 {
			language, what = tags[i], changeTaken
		}
		kept[own] = language
		changes = append(changes, languageChange{own, what})
	}
	if len(tags) == 0 && v >= message.V231 {
		what := "taken from " + own
		if tags = slices.DeleteFunc(told, func(tag string) bool { return !isTag(tag) }); len(tags) == 0 {
			tags, what = []string{"*"}, changeAny // RFC 9110, section 12.5.4
		}
		changes = append(changes, languageChange{accepted, what})
	}
	if kept[accepted] = strings.Join(tags, ","); len(tags) == 0 {
		delete(kept, accepted)
	}
	return changes
}
