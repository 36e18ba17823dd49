package txn

import (
	"fmt"
	"slices"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// A Record is what a transaction keeps in addition to its state. It is sealed before the store sees it. It never holds
// a card number. Of the AReq it keeps only the facts that later messages are checked against. If a follow-up
// authentication may come, it also keeps the purchase, with a digest of the card.
type Record struct {
	API      string `json:",omitzero"` // that it was made with; "" is /auth
	Version  string // of the transaction; "" if no directory has the card
	BIN      string `json:",omitzero"` // the beginning of the card number, as far as it may be shown
	Last4    string `json:",omitzero"` // the end of the card number
	Began    int64  `json:",omitzero"` // when its request came, Unix milliseconds
	LookedUp int64  `json:",omitzero"` // when its card range was found, Unix milliseconds
	Made     int64  `json:",omitzero"` // when it was created, if that was before Sent, Unix milliseconds
	Sent     int64  // when the id was claimed, just before the AReq leaves, Unix milliseconds
	// when all but the id is forgotten, Unix milliseconds; 0: not before the row expires
	Until    int64     `json:",omitzero"`
	AReq     []byte    // facts of the request, JSON
	Purchase *Purchase `json:",omitzero"` // when a follow-up authentication may come
	ARes     []byte    `json:",omitzero"` // the answer, byte for byte as it came
	RReq     []byte    `json:",omitzero"` // the result, byte for byte as it came
	Erro     []byte    `json:",omitzero"` // with which the DS gave the transaction up
	Answered int64     `json:",omitzero"` // when the ARes came, or was given up, Unix milliseconds
	CardHash []byte    `json:",omitzero"` // by which the journal finds the card
	// when it came to its end, Unix milliseconds; 0: it has not, or not before a wait is over
	Ended int64 `json:",omitzero"`

	Failure *api.OutcomeError `json:",omitzero"` // with which the authentication failed, its texts as the journal has them

	Untold []string `json:",omitzero"` // members that the browser did not send, so that no AReq left

	Amount   string `json:",omitzero"` // purchaseAmount
	Currency string `json:",omitzero"` // purchaseCurrency
	Exponent string `json:",omitzero"` // purchaseExponent

	AcquirerMerchant string `json:",omitzero"` // acquirerMerchantID

	Decoupled   bool     `json:",omitzero"` // the ARes said D
	Gone        bool     `json:",omitzero"` // the requestor seemed to have gone when the ARes came
	Undelivered bool     `json:",omitzero"` // the requestor was refused the ARes
	Refused     bool     `json:",omitzero"` // we told the DS that the result was not stored
	Reference   string   `json:",omitzero"` // by which the requestor knows the transaction
	Schemes     []string `json:",omitzero"` // that hold the card, the preferred one first; nil: the row's alone
	Defaulted   []string `json:",omitzero"` // members that the server filled in
	Changes     []string `json:",omitzero"` // what was normalised in the request

	BadResult *journal.Refusal `json:",omitzero"` // the first RReq that came and was not valid; nil if there was none

	Unkept []journal.Rule `json:",omitzero"` // the rules of the scheme that the AReq does not keep

	Corrections []api.Correction `json:",omitzero"` // Changes with pointers and values, of one that was created

	Page  *PageRecord  `json:",omitzero"` // of one that a browser carries out
	Agent *AgentRecord `json:",omitzero"` // of an authentication whose browser an agent controls

	areq, ares, rreq parsedMessage // what was read of AReq, ARes and RReq
}

// A parsedMessage is a message with the text that it was read from. Its zero value is a message that was not read yet.
type parsedMessage struct {
	text    []byte
	message *message.Message
}

// read returns the message of a text. It reads the text unless it is the one of the last time.
func (p *parsedMessage) read(text []byte) (*message.Message, error) {
	if p.message != nil && len(text) == len(p.text) && &text[0] == &p.text[0] { // no message is empty
		return p.message, nil
	}
	m, err := message.Parse(text, message.Limits{})
	if err == nil {
		*p = parsedMessage{text, m}
	}
	return m, err
}

// ReadARes returns the message of ARes. Like all that read messages of a record, it is not safe for concurrent calls.
func (r *Record) ReadARes() (*message.Message, error) { return r.ares.read(r.ARes) }

// ReadRReq returns the message of RReq.
func (r *Record) ReadRReq() (*message.Message, error) { return r.rreq.read(r.RReq) }

// SetARes keeps an answer, byte for byte as it came.
func (r *Record) SetARes(m *message.Message) {
	r.ARes = m.Bytes()
	r.ares = parsedMessage{r.ARes, m}
}

// SetRReq keeps a result, byte for byte as it came.
func (r *Record) SetRReq(m *message.Message) {
	r.RReq = m.Bytes()
	r.rreq = parsedMessage{r.RReq, m}
}

// clone returns a copy that shows no later change of r.
func (r *Record) clone() *Record {
	c := *r
	if r.Page != nil {
		page := *r.Page
		c.Page = &page
		if page.SPC != nil {
			spc := *page.SPC
			page.SPC = &spc
		}
	}
	if r.Agent != nil {
		agent := *r.Agent
		c.Agent = &agent
	}
	return &c
}

// Messages returns the messages that are kept; of the AReq there are facts alone.
func (r *Record) Messages() (m outcome.Messages, err error) {
	for _, kept := range []struct {
		name string
		text []byte
		read *parsedMessage
		into **message.Message
	}{{"AReq", r.AReq, &r.areq, &m.AReq}, {"ARes", r.ARes, &r.ares, &m.ARes}, {"RReq", r.RReq, &r.rreq, &m.RReq}} {
		if len(kept.text) == 0 && kept.name != "AReq" {
			continue
		}
		if *kept.into, err = kept.read.read(kept.text); err != nil {
			return m, fmt.Errorf("auth: kept %s: %w", kept.name, err)
		}
	}
	m.IsUnshown = r.Page != nil && r.Page.Shown == 0
	return m, nil
}

// Context makes of the kept facts what a later message is checked against.
func (r *Record) Context() (message.Context, error) {
	m, err := r.Messages()
	return message.Context{AReq: m.AReq, ARes: m.ARes}, err
}

// MessageVersion is the version of the transaction; where it has none, 2.2.0.
func (r *Record) MessageVersion() message.Version {
	v, ok := message.ParseVersion(r.Version)
	if !ok {
		return message.V220
	}
	return v
}

// CreatedAt is when the transaction began.
func (r *Record) CreatedAt() time.Time {
	return time.UnixMilli(r.Began).UTC()
}

// SetPurchase keeps what an AReq says of the purchase and the merchant.
func (r *Record) SetPurchase(areq *message.Message) {
	r.Amount, r.Currency, r.Exponent = areq.Text("purchaseAmount"), areq.Text("purchaseCurrency"),
		areq.Text("purchaseExponent")
	r.AcquirerMerchant = areq.Text("acquirerMerchantID")
}

// WasSent reports whether an AReq may have left.
func (r *Record) WasSent() bool { return r.Sent != 0 && r.Version != "" }

// AuthenticationsAPI is the API of a record that /authentications made, and AgentsAPI that of one for an agent.
const (
	AuthenticationsAPI = "authentications"
	AgentsAPI          = "acp"
)

// UnkeptRules returns the rules of findings in the form for the record, each once.
func UnkeptRules(findings []*scheme.Finding) []journal.Rule {
	var rules []journal.Rule
	for _, f := range findings {
		r := journal.Rule{Element: f.Element, Rule: string(f.Rule)}
		r.Since, _ = f.Since.Days()
		_, r.Until = f.Until.Days()
		if !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
	}
	return rules
}

// A PageRecord is what a row keeps of an authentication that a browser carries out.
type PageRecord struct {
	Token        []byte            // digest of the token's secret
	Card         []byte            `json:",omitzero"` // the AReq, sealed under that secret; gone once the AReq has left
	Binding      []byte            `json:",omitzero"` // digest of the secret of the browser that began it
	Awaited      []string          `json:",omitzero"` // members that the request left to the page
	Begun        int64             `json:",omitzero"` // when a browser began it, Unix milliseconds
	Data         map[string]string `json:",omitzero"` // what the page sent, as readBrowserData returns it
	Language     string            `json:",omitzero"` // browserLanguage of the request; "" if it left that to the page
	ReturnURL    string            `json:",omitzero"`
	Amount       string            `json:",omitzero"`
	Currency     string            `json:",omitzero"`
	Exponent     string            `json:",omitzero"`
	MethodURL    string            `json:",omitzero"`
	MethodEnds   int64             `json:",omitzero"` // when the 3DS Method is over at the latest, Unix milliseconds
	IsMethodDone bool              `json:",omitzero"` // its notification has come
	// when the browser first got the form that opens the issuer's page, Unix milliseconds
	Shown       int64      `json:",omitzero"`
	Returned    int64      `json:",omitzero"` // when the issuer sent the browser back, Unix milliseconds
	IsConfirmed bool       `json:",omitzero"` // the text of the issuer was shown
	SPC         *SPCRecord `json:",omitzero"` // since the issuer has asked for Secure Payment Confirmation
}

// HasScript reports whether the page may run scripts.
func (p *PageRecord) HasScript() bool { return p.Data["browserJavascriptEnabled"] != "false" }

// Completion returns the threeDSCompInd of the AReq.
func (p *PageRecord) Completion() string {
	switch {
	case p.MethodURL == "":
		return "U"
	case p.IsMethodDone:
		return "Y"
	}
	return "N"
}

// An SPCRecord is what the row of an authentication keeps of Secure Payment Confirmation, when a page of ours shows the
// browser's dialog and the server itself sends the second AReq. Everything but Outcome is about the first one.
type SPCRecord struct {
	ID       string // the threeDSServerTransID of the second AReq
	At       int64  // when the ARes S came, Unix milliseconds
	Outcome  string `json:",omitzero"` // SPCConfirmed or spcIncompInd, once the second AReq may have left
	AReq     []byte `json:",omitzero"` // facts of the first AReq, JSON, once the second may have left
	ARes     []byte `json:",omitzero"` // facts of the first ARes, JSON, likewise
	Sent     int64  `json:",omitzero"` // when the first AReq left, likewise
	Answered int64  `json:",omitzero"` // when the first ARes came, likewise
}

// A SecondRecord is what a row in the state Second keeps.
type SecondRecord struct {
	First string // the id of the row that has the authentication
	// the first AReq, sealed under the secret of the token; gone once the second may have left
	Card []byte `json:",omitzero"`
	Sent int64  `json:",omitzero"` // when the second AReq may have left, Unix milliseconds
}

// SPCConfirmed is the Outcome of a dialog that gave an assertion.
const SPCConfirmed = "confirmed"

// IsSecond reports whether the second AReq of SPC may have left. AReq, ARes, Sent and Answered are those of it then.
func (r *Record) IsSecond() bool {
	return r.Page != nil && r.Page.SPC != nil && r.Page.SPC.Outcome != ""
}

// IsAwaitingSPC reports whether the browser's dialog is to tell what becomes of SPC.
func (r *Record) IsAwaitingSPC(t *store.Txn) bool {
	return t.State == Challenge && r.Page != nil && r.Page.SPC != nil && r.Page.SPC.Outcome == ""
}

// CurrentID returns the threeDSServerTransID of the last AReq, when that of the first is id.
func (r *Record) CurrentID(id string) string {
	if r.IsSecond() {
		return r.Page.SPC.ID
	}
	return id
}

// First returns the record as it was before the second AReq, as far as messages are checked against it.
func (r *Record) First() *Record {
	if !r.IsSecond() {
		return r
	}
	was, s := *r, r.Page.SPC
	was.AReq, was.ARes, was.Sent, was.Answered, was.RReq = s.AReq, s.ARes, s.Sent, s.Answered, nil
	return &was
}

// An AgentRecord is what a row keeps of an authentication whose browser an agent controls.
type AgentRecord struct {
	Request         []byte `json:",omitzero"` // the request, sealed under the API key; gone once the AReq has left
	Continued       int64  `json:",omitzero"` // when the request came that the AReq left for, Unix milliseconds
	NotificationURL string `json:",omitzero"` // "" if the agent sends it later
	MethodURL       string `json:",omitzero"` // of the 3DS Method; "" if there is none
}

// A Purchase is what a follow-up authentication must have in common with the first one.
type Purchase struct {
	Values map[string]string // raw JSON values by element; "" where the element is absent
	Card   []byte            // keyed digest of the card number and the id of the first authentication
}

// A FirstAuthentication is what is kept of one for its follow-up.
type FirstAuthentication struct {
	Kind string // kind of the follow-up: spc or fallback
	At   int64  // when it ended with S or D, Unix milliseconds
	ID   string // its threeDSServerTransID
	Purchase
}
