package mpi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/protocol/v1"
)

// A shownMessage is as much of a message as the record of its request may show. Elements have the
// names of the protocol.
type shownMessage struct {
	MessageType string `json:"messageType"`
	MessageID   string `json:"messageId,omitempty"`
	Enrolled    string `json:"enrolled,omitempty"`
	PAN         string `json:"pan,omitempty"`    // hidden except its ends
	AcctID      string `json:"acctID,omitempty"` // withheld
	URL         string `json:"url,omitempty"`
	AcqBIN      string `json:"acqBIN,omitempty"`
	MerID       string `json:"merID,omitempty"`
	Name        string `json:"name,omitempty"`
	Country     string `json:"country,omitempty"`
	XID         string `json:"xid,omitempty"`
	Date        string `json:"date,omitempty"`
	PurchAmount string `json:"purchAmount,omitempty"`
	Currency    string `json:"currency,omitempty"`
	Exponent    string `json:"exponent,omitempty"`
	Time        string `json:"time,omitempty"`
	Status      string `json:"status,omitempty"`
	CAVV        string `json:"cavv,omitempty"` // withheld
	ECI         string `json:"eci,omitempty"`
	CAVVAlgo    string `json:"cavvAlgorithm,omitempty"`
	IReqCode    string `json:"iReqCode,omitempty"`
}

// noteStep records a message at this moment, and what was found in it; nil is a message that could not be read.
func (e *Engine) noteStep(ctx context.Context, step string, m *shownMessage, finding string) {
	if e.Recorder == nil {
		return
	}
	var text []byte
	if m != nil {
		text, _ = json.Marshal(m) // texts alone are never refused
	}
	e.Recorder.NoteStep(ctx, step, e.Now(), text, finding)
}

// withhold returns what is shown in place of a value.
func withhold(value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf("[withheld, %d bytes]", len(value))
}

// withholdCAVV returns what is shown in place of an authentication value. It has the beginning of a keyed hash, so that
// a holder of the value can prove that it was this one.
func (e *Engine) withholdCAVV(value string) string {
	if value == "" || e.CardHash == nil {
		return withhold(value)
	}
	return withhold(value) + " hash " + hex.EncodeToString(e.CardHash("authenticationValue " + value)[:4])
}

// maskPAN hides a card number except its ends, and keeps its length.
func maskPAN(pan string) string {
	first, last := shownDigits(pan)
	return first + strings.Repeat("*", len(pan)-len(first)-len(last)) + last
}

// shownDigits returns as much of the two ends of a card number as may be shown: the first eight digits and the last
// four; of one shorter than 16 digits the first six (PCI DSS 4.0, 3.4.1).
func shownDigits(pan string) (first, last string) {
	if len(pan) < 16 {
		return pan[:6], pan[len(pan)-4:]
	}
	return pan[:8], pan[len(pan)-4:]
}

func showVEReq(m *v1.VEReq) *shownMessage {
	return &shownMessage{
		MessageType: "VEReq", MessageID: m.ID, PAN: maskPAN(m.PAN), AcqBIN: m.Merchant.AcqBIN, MerID: m.Merchant.ID,
	}
}

func showVERes(m *v1.VERes) *shownMessage {
	return &shownMessage{
		MessageType: "VERes", MessageID: m.ID, Enrolled: m.Enrolled, AcctID: withhold(m.AcctID), URL: m.URL,
		IReqCode: m.IReq.Code,
	}
}

func showPAReq(m *v1.PAReq) *shownMessage {
	return &shownMessage{
		MessageType: "PAReq", MessageID: m.ID, AcctID: withhold(m.AcctID), AcqBIN: m.Merchant.AcqBIN, MerID: m.Merchant.ID,
		Name: m.Merchant.Name, Country: m.Merchant.Country, XID: m.XID, Date: v1.FormatTime(m.Date), PurchAmount: m.Amount,
		Currency: m.Currency, Exponent: strconv.Itoa(m.Exponent),
	}
}

// showPARes returns nil for a PARes that could not be read.
func (e *Engine) showPARes(m *v1.Opened) *shownMessage {
	if m == nil {
		return nil
	}
	return &shownMessage{
		MessageType: "PARes", MessageID: m.MessageID, AcqBIN: m.AcqBIN, MerID: m.MerID, XID: m.XID, Date: m.Date,
		PurchAmount: m.Amount, Currency: m.Currency, Exponent: strconv.Itoa(m.Exponent), Time: v1.FormatTime(m.Time),
		Status: m.Status, CAVV: e.withholdCAVV(m.CAVV), ECI: m.ECI,
		CAVVAlgo: m.CAVVAlgo, IReqCode: m.IReq.Code,
	}
}
