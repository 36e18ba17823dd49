package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/journal"
	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
)

// A field is one element of a message with what it means.
type field struct {
	Name, Value, Meaning string
	Masked               bool
}

// A group is the elements that answer one question.
type group struct {
	Name   string
	Fields []field
}

// A messageCard is one step, with its message explained.
type messageCard struct {
	Key, Name, Gist  string
	FromName, ToName string
	Time             string
	Plain            string // what it says, in a sentence
	Groups           []group
	Raw              string
	Findings         []string
	Row              *row
	Others           []link // messages that may be shown beside it
}

// newMessageCard explains a step of a record.
func newMessageCard(d *journal.Detail, r *row) *messageCard {
	c := &messageCard{Key: r.Key, Name: r.Name, Gist: r.Gist, FromName: r.FromName, ToName: r.ToName, Time: r.Time, Row: r, Findings: r.Step.Findings}
	c.Plain = plainOf(d, r)
	if len(r.Step.Message) == 0 {
		return c
	}
	var raw bytes.Buffer
	if json.Indent(&raw, r.Step.Message, "", "  ") == nil {
		c.Raw = raw.String()
	}
	c.Groups = explainMessage(d, r.Step.Message)
	return c
}

// plainOf says in a sentence what a step says.
func plainOf(d *journal.Detail, r *row) string {
	m, err := message.Parse(r.Step.Message, message.Limits{})
	status := ""
	if err == nil && len(r.Step.Message) > 0 {
		status = m.Text("transStatus")
	}
	switch r.Step.Step {
	case "request":
		return "The shop asked for an authentication. Its request is not kept; what left for the directory is in the AReq."
	case "areq":
		return "What we asked the directory server, as it left."
	case "ares":
		texts := map[string]string{
			"Y": "The bank knows the shopper without asking.", "A": "The bank takes no part; the attempt counts.", "C": "The bank wants to ask the shopper.",
			"D": "The bank asks the shopper apart from the shop.", "N": "The bank says no.", "U": "The bank cannot say at the moment.",
			"R": "The bank refuses, and asks not to be asked again.", "I": "For information only.", "S": "The shop's page is to ask the shopper.",
		}
		if text := texts[status]; text != "" {
			return text
		}
		return "What the directory server answered."
	case "rreq":
		texts := map[string]string{
			"Y": "The shopper passed.", "A": "The attempt counts.", "N": "The shopper did not pass.", "U": "The bank cannot say.",
			"R": "The bank refuses.",
		}
		if text := texts[status]; text != "" {
			return "The result of the challenge: " + strings.ToLower(text[:1]) + text[1:]
		}
		return "The result of the challenge."
	case "rres":
		return "We told the directory server that the result is here."
	case "answered":
		return "The shop has its answer."
	case "erro":
		return "There was no answer that could be used."
	case "expired":
		return "Nobody came back in time."
	case "cancelled":
		return "It was ended before there was a result."
	case "created":
		return "The authentication waits for the shopper's browser."
	}
	return ""
}

// explainMessage returns the elements of a masked message in groups, each with its meaning.
func explainMessage(d *journal.Detail, raw []byte) []group {
	m, err := message.Parse(raw, message.Limits{})
	if err != nil {
		return nil
	}
	var table *message.Table
	if t, ok := m.Type(); ok {
		if v, ok := m.Version(); ok {
			table = message.TableOf(t, v)
		}
	}
	byName := map[string][]field{}
	walkMessage(json.NewDecoder(bytes.NewReader(raw)), func(path, value string) {
		f := field{Name: path, Value: value, Masked: strings.HasPrefix(value, "[withheld") || strings.Trim(value, "*") == ""}
		f.Meaning = meaningOf(d, table, path, value)
		name := groupOf(path)
		byName[name] = append(byName[name], f)
	})
	if t, ok := m.Type(); ok && (t == message.ARes || t == message.RReq) && !m.Has("authenticationValue") {
		byName[groupNames[0]] = append(byName[groupNames[0]], field{Name: "authenticationValue", Value: "absent", Meaning: "there is no value", Masked: true})
	}
	var all []group
	for _, name := range groupNames {
		if fields := byName[name]; len(fields) > 0 {
			all = append(all, group{name, fields})
		}
	}
	return all
}

// walkMessage calls visit for each value of a JSON object in its order, with its path.
func walkMessage(d *json.Decoder, visit func(path, value string)) {
	d.UseNumber()
	var walk func(path string) error
	walk = func(path string) error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		delim, isDelim := token.(json.Delim)
		if !isDelim {
			text := fmt.Sprint(token)
			if token == nil {
				text = "null"
			}
			visit(path, text)
			return nil
		}
		for i := 0; d.More(); i++ {
			at := fmt.Sprintf("%s[%d]", path, i)
			if delim == '{' {
				name, err := d.Token()
				if err != nil {
					return err
				}
				at = strings.TrimPrefix(fmt.Sprintf("%s.%v", path, name), ".")
			}
			if err := walk(at); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
	_ = walk("") // what can be read is shown
}

// meaningOf returns what an element is, and what its code says.
func meaningOf(d *journal.Detail, t *message.Table, path, value string) string {
	var f *message.Field
	for _, part := range strings.Split(path, ".") {
		name, _, _ := strings.Cut(part, "[")
		if f = t.Field(name); f == nil {
			return "not of this message in this version"
		}
		t = f.Of
	}
	text := f.Doc
	if f.Codes != nil {
		if meaning := codeMeaning(f.Codes, value); meaning != "" {
			return text + ": " + meaning
		}
	}
	if meaning := scheme.Meaning(d.Card.Scheme, f.Name, value); meaning != "" {
		return text + ": " + meaning
	}
	if f.Name == "purchaseAmount" {
		return text + ": " + amount(d.Amount, d.Currency)
	}
	return text
}

func codeMeaning(codes *message.Codes, value string) string {
	i := slices.IndexFunc(codes.Values, func(c message.CodeValue) bool { return c.Value == value })
	if i < 0 {
		return ""
	}
	return codes.Values[i].Meaning
}

// groupNames are the questions that elements answer, in the order of the page.
var groupNames = []string{
	"What decides", "Where the challenge is", "What is bought", "Card and cardholder", "The shopper's device", "Who takes part",
	"Ids, for a ticket", "Everything else",
}

// groupOf returns the question that an element answers.
func groupOf(path string) string {
	name, _, _ := strings.Cut(strings.ToLower(path), ".")
	name, _, _ = strings.Cut(name, "[")
	for i, prefixes := range [][]string{
		{
			"transstatus", "eci", "authenticationvalue", "authenticationtype", "acschallengemandated", "acsdecconind", "challengecancel",
			"whiteliststatus", "trustliststatus", "errorcode", "errordescription", "errordetail", "errorcomponent", "cardholderinfo",
			"interactioncounter", "authenticationmethod", "threedsrequestorchallengeind", "threedscompind", "resultsstatus",
		},
		{"acsurl", "acsrenderingtype", "acssignedcontent", "threedsrequestorappurl", "notificationurl", "threedsrequestordec"},
		{"purchase", "recurring", "mcc", "merchant", "messagecategory", "transtype", "installment", "paytoken"},
		{"acctnumber", "cardexpiry", "cardholder", "email", "billaddr", "shipaddr", "homephone", "mobilephone", "workphone", "acct", "addrmatch"},
		{"browser", "devicechannel", "deviceinfo", "devicerender", "sdk"},
		{"acquirer", "threedsrequestorid", "threedsrequestorname", "threedsrequestorurl", "threedsserverrefnumber", "threedsserveroperator",
			"threedsserverurl", "acsoperator", "acsreference", "dsreference", "threedsrequestorauthentication"},
		{"threedsservertransid", "dstransid", "acstransid", "messageversion", "messagetype"},
	} {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			return groupNames[i]
		}
	}
	return groupNames[len(groupNames)-1]
}
