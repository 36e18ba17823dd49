package journal

import (
	"encoding/json"
	"strconv"
	"time"
)

// An entry is written as JSON. This file writes what json.Marshal
// writes, in less than half of the time: that checks and copies each time, which is text already.

// A jsonObject is a JSON object that is being written.
type jsonObject struct {
	text []byte
	err  error // err is the first error.
}

// name begins a member.
func (o *jsonObject) name(name string) {
	if o.text[len(o.text)-1] != '{' {
		o.text = append(o.text, ',')
	}
	o.text = append(append(append(o.text, '"'), name...), `":`...)
}

// always adds a text, also an empty one.
func (o *jsonObject) always(name, text string) {
	o.name(name)
	o.text = appendJSONText(o.text, text)
}

// add adds a text that is not empty.
func (o *jsonObject) add(name, text string) {
	if text != "" {
		o.always(name, text)
	}
}

// addNumber adds a number that is not 0.
func (o *jsonObject) addNumber(name string, n int64) {
	if n != 0 {
		o.name(name)
		o.text = strconv.AppendInt(o.text, n, 10)
	}
}

// addTrue adds a value that is true.
func (o *jsonObject) addTrue(name string, value bool) {
	if value {
		o.name(name)
		o.text = append(o.text, "true"...)
	}
}

// addTime adds a time.
func (o *jsonObject) addTime(name string, at time.Time) {
	o.name(name)
	text, err := at.AppendText(append(o.text, '"'))
	if err != nil {
		o.fail(err)
		return
	}
	o.text = append(text, '"')
}

// addTexts adds a list of texts that is not empty.
func (o *jsonObject) addTexts(name string, texts []string) {
	if len(texts) == 0 {
		return
	}
	o.name(name)
	separator := byte('[')
	for _, text := range texts {
		o.text = appendJSONText(append(o.text, separator), text)
		separator = ','
	}
	o.text = append(o.text, ']')
}

// addValue adds a value that few entries have.
func (o *jsonObject) addValue(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		o.fail(err)
		return
	}
	o.name(name)
	o.text = append(o.text, text...)
}

func (o *jsonObject) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// appendJSONText appends a text as JSON.
func appendJSONText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text) // each text can be written
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// appendRecord appends a record as JSON.
func appendRecord(b []byte, r *Record) ([]byte, error) {
	o := jsonObject{text: append(b, '{')}
	o.always("id", r.ID)
	o.addTime("created", r.Created)
	o.addTime("updated", r.Updated)
	o.always("api", r.API)
	o.add("operation", r.Operation)
	o.always("merchant", r.Merchant)
	o.add("reference", r.Reference)
	o.name("card")
	o.text = append(o.text, '{')
	o.add("scheme", r.Card.Scheme)
	o.add("bin", r.Card.BIN)
	o.add("last4", r.Card.Last4)
	o.text = append(o.text, '}')
	o.add("amount", r.Amount)
	o.add("currency", r.Currency)
	o.add("exponent", r.Exponent)
	o.add("acquirerMerchantID", r.AcquirerMerchant)
	o.add("messageVersion", r.MessageVersion)
	o.add("deviceChannel", r.DeviceChannel)
	o.add("messageCategory", r.MessageCategory)
	o.always("status", r.Status)
	o.add("result", r.Result)
	o.add("transStatus", r.TransStatus)
	o.add("transStatusReason", r.TransStatusReason)
	o.add("eci", r.ECI)
	o.add("acs", r.ACS)
	o.add("dsTransID", r.DSTransID)
	o.add("acsTransID", r.ACSTransID)
	o.add("namedID", r.NamedID)
	o.name("challenged")
	o.text = strconv.AppendBool(o.text, r.Challenged)
	o.addTrue("decoupled", r.Decoupled)
	o.add("liability", r.Liability)
	o.addTrue("lacksValue", r.LacksValue)
	o.add("currentId", r.CurrentID)
	o.add("errorCode", r.ErrorCode)
	o.add("errorComponent", r.ErrorComponent)
	o.add("errorDescription", r.ErrorDescription)
	o.add("errorDetail", r.ErrorDetail)
	if r.ResultRefused != nil {
		o.addValue("resultRefused", r.ResultRefused)
	}
	o.addTexts("elements", r.Elements)
	o.addNumber("durationMs", r.DurationMS)
	if len(r.Unkept) > 0 {
		o.addValue("unkept", r.Unkept)
	}
	o.addTrue("changedInStore", r.IsChanged)
	return append(o.text, '}'), o.err
}

// appendStep appends a step as JSON.
func appendStep(b []byte, s *Step) ([]byte, error) {
	o := jsonObject{text: append(b, '{')}
	o.always("step", s.Step)
	o.addTime("at", s.At)
	o.name("ms")
	o.text = strconv.AppendInt(o.text, s.MS, 10)
	o.add("node", s.Node)
	if len(s.Message) > 0 {
		o.addValue("message", s.Message)
	}
	o.addTexts("findings", s.Findings)
	o.addNumber("bytes", int64(s.Bytes))
	o.add("digest", s.Digest)
	if len(s.Personal) > 0 {
		o.addValue("personal", s.Personal)
	}
	return append(o.text, '}'), o.err
}

// appendContent appends the JSON of an entry.
func appendContent(b []byte, e *Entry) (_ []byte, err error) {
	b = appendJSONText(append(b, `{"kind":`...), string(e.Kind))
	if b, err = appendRecord(append(b, `,"record":`...), &e.Record); err != nil {
		return nil, err
	}
	for i := range e.Steps {
		separator := `,`
		if i == 0 {
			separator = `,"steps":[`
		}
		if b, err = appendStep(append(b, separator...), &e.Steps[i]); err != nil {
			return nil, err
		}
	}
	if len(e.Steps) > 0 {
		b = append(b, ']')
	}
	return append(b, '}'), nil
}
