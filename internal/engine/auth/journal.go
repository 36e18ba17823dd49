package auth

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// HashCard returns the hash by which the journal finds a card; nil when there is no journal.
func (e *Engine) HashCard(pan string) []byte {
	if e.CardHash == nil {
		return nil
	}
	return e.CardHash(pan)
}

// JournalEntries returns the entries that the journal keeps about a row that was read or written at a time: that of its
// last step or, if all is set, those of all its steps. Rows that are not transactions, and rows that do not open, have
// no entries. Sent is what [SentMessage] returns for the write; nil means that the AReq is shown by what the row keeps
// of it.
func (e *Engine) JournalEntries(t store.Txn, at time.Time, all bool, sent *journal.Step) []journal.Entry {
	if !txn.IsTransaction(&t) {
		return nil
	}
	rec, err := e.Sealed(&t)
	if err != nil {
		return nil
	}
	status := e.StatusAt(&t, rec, at)
	base, _, err := e.journalRecord(&t, rec, status)
	if err != nil {
		return nil
	}
	kinds := journalKinds(&t, rec, status)
	if slices.Contains(kinds, journal.Answered) {
		// its steps are the first of the answer
		kinds = slices.DeleteFunc(kinds, func(k journal.Kind) bool { return k == journal.Claimed })
	}
	if !all {
		kinds = kinds[len(kinds)-1:]
	}
	base.Updated = at.UTC()
	entries := make([]journal.Entry, len(kinds))
	for i, kind := range kinds {
		steps := e.journalSteps(kind, rec, base, at, sent)
		for k := range steps {
			steps[k].At = steps[k].At.UTC()
		}
		entries[i] = journal.Entry{Kind: kind, Record: *base, Steps: steps, CardHash: rec.CardHash}
	}
	return entries
}

// journalKinds returns the steps that a transaction has come through.
func journalKinds(t *store.Txn, rec *txn.Record, status api.Status) []journal.Kind {
	var kinds []journal.Kind
	if rec.Made != 0 {
		kinds = append(kinds, journal.Created)
	}
	if p := rec.Page; p != nil && p.Begun != 0 && p.MethodURL != "" {
		kinds = append(kinds, journal.Method)
	}
	if rec.WasSent() {
		kinds = append(kinds, journal.Claimed)
	}
	answered := journal.Answered
	if rec.IsSecond() {
		kinds = append(kinds, journal.Answered, journal.SecondAReq)
		answered = journal.SecondAnswer
	}
	if rec.Answered != 0 || t.State == txn.Sent && status == api.StatusFailed {
		kinds = append(kinds, answered)
	}
	if p := rec.Page; p != nil && p.Returned != 0 {
		kinds = append(kinds, journal.Returned)
	}
	switch {
	case t.State == txn.Result:
		kinds = append(kinds, journal.Resulted)
	case rec.Erro != nil:
		kinds = append(kinds, journal.GivenUp)
	case t.State == txn.Cancelled:
		kinds = append(kinds, journal.Cancelled)
	case status == api.StatusExpired:
		kinds = append(kinds, journal.Expired)
	case len(kinds) == 0 || txn.IsAtEnd(t) && rec.Answered == 0:
		kinds = append(kinds, answered) // the authentication ended before an AReq left
	}
	return kinds
}

// journalRecord returns a transaction as the journal shows it, and its messages.
func (e *Engine) journalRecord(t *store.Txn, rec *txn.Record,
	status api.Status) (*journal.Record, outcome.Messages, error) {
	r := &journal.Record{
		ID: t.ID, Created: rec.CreatedAt(), API: "emv", Operation: "auth", Merchant: t.Owner, Reference: rec.Reference,
		Updated: time.UnixMilli(cmp.Or(rec.Ended, rec.Until, rec.Answered, rec.Sent, rec.Made)).UTC(),
		Card:    journal.Card{Scheme: t.Scheme, BIN: rec.BIN, Last4: rec.Last4},
		Amount:  rec.Amount, Currency: rec.Currency, Exponent: rec.Exponent,
		AcquirerMerchant: cardnumber.Scrub(rec.AcquirerMerchant), MessageVersion: rec.Version, ResultRefused: rec.BadResult,
	}
	switch rec.API {
	case txn.AuthenticationsAPI:
		r.API, r.Operation = txn.AuthenticationsAPI, "authentications"
	case txn.AgentsAPI:
		r.API, r.Operation = txn.AgentsAPI, "delegate_authentication"
	}
	if rec.Answered != 0 && rec.Sent != 0 {
		r.DurationMS = rec.Answered - rec.Sent
	}
	if rec.WasSent() {
		r.Unkept = rec.Unkept
	}
	messages, err := rec.Messages()
	if err != nil {
		return nil, messages, err
	}
	end := outcome.NewEnding(status, t.Scheme, messages)
	end.ServerID, end.Time, end.Error, end.Rules = rec.CurrentID(t.ID), r.Updated, rec.Failure, e.RulesOf(t.Scheme)
	r.SetEnding(end)
	if rec.Failure != nil {
		r.Elements = elementsIn(rec.Failure.Detail)
	}
	if ares := messages.ARes; ares != nil {
		r.ACS, r.Decoupled = ares.Text("acsReferenceNumber"), ares.Text("transStatus") == "D"
	}
	return r, messages, nil
}

// journalSteps returns what happened in one step. A message is masked.
func (e *Engine) journalSteps(kind journal.Kind, rec *txn.Record, base *journal.Record, at time.Time,
	sent *journal.Step) []journal.Step {
	switch kind {
	case journal.Created:
		steps := requestSteps(rec)
		if rec.Version != "" {
			steps = append(steps, journal.Step{Step: "answered", At: time.UnixMilli(rec.Made)})
		}
		return steps
	case journal.Method:
		return []journal.Step{{Step: "method", At: time.UnixMilli(rec.Page.Begun)}}
	case journal.SecondAReq:
		areq := e.areqStep(rec, sent)
		told := journal.Step{Step: "spc.answer", At: areq.At, Findings: []string{spcFindings[rec.Page.SPC.Outcome]}}
		return []journal.Step{told, areq}
	case journal.SecondAnswer:
		return e.answerSteps(rec, time.UnixMilli(cmp.Or(rec.Answered, rec.Ended, at.UnixMilli())))
	case journal.Claimed:
		rec = rec.First()
		areq := e.areqStep(rec, sent)
		areq.Findings = describeFindings(base.Findings(e.RulesOf(base.Card.Scheme)))
		if rec.Made == 0 {
			return append(requestSteps(rec), areq)
		}
		if rec.Agent != nil && rec.Agent.Continued != 0 {
			return []journal.Step{{Step: "request", At: time.UnixMilli(rec.Agent.Continued), Findings: rec.Changes}, areq}
		}
		return []journal.Step{areq}
	case journal.Answered:
		var steps []journal.Step
		if rec.WasSent() {
			steps = e.journalSteps(journal.Claimed, rec, base, at, sent)
		}
		rec = rec.First()
		return append(steps, e.answerSteps(rec, time.UnixMilli(cmp.Or(rec.Answered, rec.Ended, at.UnixMilli())))...)
	case journal.Returned:
		return []journal.Step{{Step: "cres", At: time.UnixMilli(rec.Page.Returned)}}
	case journal.Resulted:
		ended := time.UnixMilli(rec.Ended)
		return []journal.Step{{Step: "rreq", At: ended, Message: e.mask(rec.ReadRReq())}, {Step: "rres", At: ended}}
	case journal.GivenUp:
		return []journal.Step{{Step: "erro", At: time.UnixMilli(cmp.Or(rec.Ended, at.UnixMilli())),
			Message: e.MaskedMessage(rec.Erro)}}
	}
	return []journal.Step{{Step: string(kind), At: time.UnixMilli(cmp.Or(rec.Ended, rec.Until, at.UnixMilli()))}}
}

// areqStep is the AReq as it was sent or, if that is nil, as far as the row keeps it.
func (e *Engine) areqStep(rec *txn.Record, sent *journal.Step) journal.Step {
	if sent == nil {
		sent = &journal.Step{Message: e.MaskedMessage(rec.AReq)}
	}
	return journal.Step{Step: "areq", At: time.UnixMilli(rec.Sent), Message: sent.Message, Personal: sent.Personal}
}

// spcFindings say what became of Secure Payment Confirmation, by its Outcome.
var spcFindings = map[string]string{
	txn.SPCConfirmed: "the cardholder confirmed",
	"01":             "the browser could not confirm (spcIncompInd 01)",
	"02":             "the cardholder cancelled (spcIncompInd 02)",
	"03":             "nothing came within 540 s (spcIncompInd 03)",
}

// requestSteps are the first steps: the request, and the look-up of its card.
func requestSteps(rec *txn.Record) []journal.Step {
	lookup := journal.Step{Step: "lookup", At: time.UnixMilli(rec.LookedUp)}
	if rec.Version == "" {
		lookup.Findings = []string{"no directory has the card"}
	}
	steps := make([]journal.Step, 0, 6) // The steps of an answer find room behind these two.
	return append(steps, journal.Step{Step: "request", At: rec.CreatedAt(), Findings: rec.Changes}, lookup)
}

// answerSteps are the answer of the directory, or what came instead, and what follows immediately from it.
func (e *Engine) answerSteps(rec *txn.Record, at time.Time) []journal.Step {
	answered := journal.Step{Step: "answered", At: at}
	if len(rec.Untold) > 0 {
		answered.Findings = []string{"no AReq: the browser did not send " + strings.Join(rec.Untold, ", ")}
		return []journal.Step{answered}
	}
	if rec.ARes == nil {
		if rec.Version == "" {
			return []journal.Step{answered}
		}
		erro := journal.Step{Step: "erro", At: at}
		if f := rec.Failure; f != nil {
			text := strings.TrimSpace(f.Code + " " + f.Detail)
			if f.Component != check.Component {
				text = journal.RelayedErro + text
			}
			erro.Findings = []string{text}
		}
		if rec.Page != nil {
			return []journal.Step{erro}
		}
		return []journal.Step{erro, answered}
	}
	ares, err := rec.ReadARes()
	steps := []journal.Step{{Step: "ares", At: at, Message: e.mask(ares, err)}}
	if rec.Page != nil {
		return steps // the browser is shown what comes next, and the merchant asks later
	}
	steps = append(steps, answered)
	if err == nil && ares.Text("transStatus") == "C" {
		steps = append(steps, journal.Step{Step: "challenge", At: at}) // the requestor opens it
	}
	return steps
}

// MaskedMessage returns a message masked, nil if it cannot be read.
func (e *Engine) MaskedMessage(text []byte) []byte {
	return e.mask(message.Parse(text, message.Limits{}))
}

// mask returns a message masked, nil if it could not be read.
func (e *Engine) mask(m *message.Message, err error) []byte {
	if err != nil {
		return nil
	}
	return e.journalMessage(m)
}

// journalMessage returns a message as the journal keeps it: masked. A message of another party loses what its texts
// quote, and an AReq also loses its card number where another element repeats it.
func (e *Engine) journalMessage(m *message.Message) []byte {
	if kind, _ := m.Type(); kind == message.AReq {
		masked := check.WithoutCard(m.WithheldJSON(e.hashValue), m.Text("acctNumber"))
		if cardnumber.IsIn(masked) { // another card: this is rare, and cheaper to ask than to do
			masked = cardnumber.ScrubJSON(masked)
		}
		return masked
	}
	return journal.ScrubMessage(m.WithheldJSON(e.hashValue), isElementName)
}

// hashValue returns the beginning of a keyed hash of an authentication value, so that a party that has the value can
// prove that it was this one; "" for every other element. The key is that of the journal's card hashes.
func (e *Engine) hashValue(name string, value []byte) string {
	if name != "authenticationValue" || e.CardHash == nil {
		return ""
	}
	return hex.EncodeToString(e.CardHash("authenticationValue " + string(value))[:4])
}

// journalDetail returns an errorDetail as the journal keeps it.
func journalDetail(detail string) string { return journal.ScrubText(detail, isElementName) }

// elementsIn returns the names of elements in a text, each once.
func elementsIn(text string) (names []string) {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r != '.' && r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	})
	for _, word := range words {
		parts := strings.Split(strings.Trim(word, "."), ".")
		if !slices.ContainsFunc(parts, func(part string) bool { return !isElementName(part) }) {
			names = addName(names, strings.Join(parts, "."))
		}
	}
	return names
}

// logDetail returns what the log may have of the detail of an Erro that another component wrote: the names of elements.
func logDetail(bad message.Error) string { return strings.Join(elementsIn(bad.Detail), ",") }

// isElementName reports whether a word is the name of an element of a message.
func isElementName(word string) bool { return elementNames()[word] }

// elementNames are the names of all elements of the messages that the journal shows.
var elementNames = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	var add func(t *message.Table)
	add = func(t *message.Table) {
		for i := range t.Fields {
			all[t.Fields[i].Name] = true
			if of := t.Fields[i].Of; of != nil {
				add(of)
			}
		}
	}
	for _, kind := range []message.Type{message.AReq, message.ARes, message.RReq, message.Erro} {
		for _, version := range []message.Version{message.V210, message.V220, message.V231} {
			if t := message.TableOf(kind, version); t != nil {
				add(t)
			}
		}
	}
	return all
})

type sentKey struct{}

// JournaledAReq returns an AReq as a step of the journal shows it, with all of its elements; nil without a journal.
func (e *Engine) JournaledAReq(areq *message.Message) *journal.Step {
	if e.AddToJournal == nil {
		return nil
	}
	step := &journal.Step{Message: e.journalMessage(areq)}
	if e.JournalsPersonal {
		pan := areq.Text("acctNumber")
		step.Personal = areq.PersonalJSON(func(f *message.Field, value string) bool {
			isNumber := f.Kind == message.IP || f.Kind == message.Digits || f.Kind == message.Object // a telephone
			return check.ReferenceWithoutCard(value, pan) == value && (isNumber || !journal.HasSecretForm(value))
		})
	}
	return step
}

// WithSent returns a context for the writes by which an AReq may leave and its answer is kept.
func WithSent(ctx context.Context, sent *journal.Step) context.Context {
	if sent == nil {
		return ctx
	}
	return context.WithValue(ctx, sentKey{}, sent)
}

// SentMessage returns the AReq that a write with this context is about, as a step of the journal shows it; nil if it is
// about none.
func SentMessage(ctx context.Context) *journal.Step {
	sent, _ := ctx.Value(sentKey{}).(*journal.Step)
	return sent
}

// AddMoment adds steps to the journal that change nothing in the row of their transaction. Their times are now.
func (e *Engine) AddMoment(t *store.Txn, rec *txn.Record, kind journal.Kind, steps ...journal.Step) {
	if e.AddToJournal == nil {
		return
	}
	now := e.Now().UTC()
	for i := range steps {
		steps[i].At = now
	}
	e.AddToJournal(journal.Entry{Kind: kind, Steps: steps, CardHash: rec.CardHash, Record: journal.Record{
		ID: t.ID, Created: rec.CreatedAt(), Updated: now, Merchant: t.Owner,
	}})
}
