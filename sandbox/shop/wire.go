package shop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
)

// An exchange is one message of the flow as the wire panel shows it.
type exchange struct {
	Number int       `json:"number"`
	Name   string    `json:"name"` // "AReq", "3DS Method data"
	From   string    `json:"from"`
	To     string    `json:"to"`
	At     time.Time `json:"at"`
	Note   string    `json:"note,omitempty"`
	Times  int       `json:"times"` // more than once for questions that were repeated
	Body   string    `json:"body"`  // indented, masked
}

// The parties of the flow, as the panel calls them.
const (
	partyBrowser = "browser"
	partyShop    = "shop"
	partyServer  = "3DS server"
	partyMPI     = "MPI" // the 3DS server's other half, for 1.0.2
	partyACS     = "ACS"
)

// A messagePanel is the messages of a checkout in the order in which they passed.
type messagePanel struct {
	list []exchange
	key  string // the API key: should a peer echo it, it stays here
	card string // the card number, as long as it is known, for the same reason
}

// maxWire limits the messages of one checkout: anyone who has seen its ids can post notices.
const maxWire = 60

func (w *messagePanel) all() []exchange { return slices.Clone(w.list) }

// add records one message, given as it was sent.
func (w *messagePanel) add(at time.Time, name, from, to string, raw []byte, note string) {
	w.addText(at, name, from, to, masked(raw), note)
}

// addText records one message, given as it is to be shown.
func (w *messagePanel) addText(at time.Time, name, from, to, text, note string) {
	if len(w.list) >= maxWire {
		return
	}
	w.list = append(w.list, exchange{
		Number: len(w.list) + 1, Name: name, From: from, To: to, At: at.UTC(), Note: w.hideSecrets(note), Times: 1,
		Body: w.hideSecrets(text),
	})
}

// addQuestion records a question and its answer. When the same pair was the last to be
// recorded, it is only counted: a page that waits asks many times.
func (w *messagePanel) addQuestion(at time.Time, question, operation string, sent []byte, name string, got []byte,
	note string) {
	body := w.hideSecrets(masked(got))
	if n := len(w.list); n >= 2 && w.list[n-1].Name == name && w.list[n-1].Body == body && w.list[n-2].Name == question {
		for i := n - 2; i < n; i++ {
			w.list[i].Times++
			w.list[i].At = at.UTC()
		}
		return
	}
	w.add(at, question, partyShop, partyServer, sent, operation)
	w.add(at, name, partyServer, partyShop, got, note)
}

// hideSecrets removes what must not reach a browser from a text.
func (w *messagePanel) hideSecrets(text string) string {
	if w.key != "" {
		text = strings.ReplaceAll(text, w.key, "***")
	}
	if w.card != "" {
		text = strings.ReplaceAll(text, w.card, cardnumber.MaskNumber(w.card))
	}
	return text
}

// maskedNames are the members whose values are not shown whole, in lower case.
var maskedNames = map[string]func(string) string{
	"acctnumber":          cardnumber.MaskNumber,
	"authenticationvalue": shorten,
	"cardexpirydate":      func(string) string { return "****" },
	"errordetail":         maskDigits,
	"errordescription":    maskDigits,

	"card[number]":       cardnumber.MaskNumber, // of /enrolled and /check
	"card[expire_month]": func(string) string { return "**" },
	"card[expire_year]":  func(string) string { return "****" },
	"pareq":              shorten,
	"pares":              shorten,
	"cavv":               shorten,
	"message":            maskDigits,
	"detail":             maskDigits,
}

// masked is a JSON message indented for people, its members in their order, with card numbers and authentication values
// masked. Of any other text it returns only the size.
func masked(raw []byte) string {
	var b, out bytes.Buffer
	if json.Valid(raw) { // which bounds the depth, too
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if maskValue(&b, d, "") == nil && json.Indent(&out, b.Bytes(), "", "  ") == nil {
			return out.String()
		}
	}
	return fmt.Sprintf("(%d bytes that are no JSON)", len(raw))
}

// maskValue copies one JSON value; name is the member that it belongs to.
func maskValue(b *bytes.Buffer, d *json.Decoder, name string) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		b.WriteString(t.String())
		for first := true; d.More(); first = false {
			if !first {
				b.WriteByte(',')
			}
			if t == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				name, _ = key.(string)
				b.Write(marshal(name))
				b.WriteByte(':')
			}
			if err := maskValue(b, d, name); err != nil {
				return err
			}
		}
		end, err := d.Token()
		if err != nil {
			return err
		}
		fmt.Fprint(b, end)
	case string:
		b.Write(marshal(maskText(name, t)))
	default:
		if t != nil && maskedNames[strings.ToLower(name)] != nil {
			t = "***" // a number where a text belongs is hidden, not guessed at
		}
		b.Write(marshal(t))
	}
	return nil
}

func maskText(name, text string) string {
	if mask := maskedNames[strings.ToLower(name)]; mask != nil {
		return mask(text)
	}
	return text
}

var longDigits = regexp.MustCompile(`[0-9]{13,19}`)

// maskDigits masks what could be a card number in a text of somebody else's.
func maskDigits(text string) string {
	return longDigits.ReplaceAllStringFunc(text, cardnumber.MaskNumber)
}

// shorten leaves the ends of a value.
func shorten(value string) string {
	if len(value) < 16 {
		return "***"
	}
	return value[:4] + "…" + value[len(value)-4:]
}
