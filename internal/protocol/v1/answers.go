package v1

import (
	"fmt"

	"github.com/openthreeds/threeds/internal/base/browserurl"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// Options are what a reader of answers allows beyond the protocol.
type Options struct {
	Lab bool // an issuer's page may be on plain http, and on the browser's own machine, as in the sandbox
}

// MaxURL is how long the URL of an access control server may be.
const MaxURL = 2048

// ReadVERes reads what a directory server answers to asked. The error is a *[Fault] if the
// answer cannot be used, or an *[Error] if it is one.
func ReadVERes(doc []byte, asked *VEReq, o Options) (*VERes, error) {
	m, body, err := openAnswer(doc, xmldsig.Limits{}, "VERes")
	if err != nil {
		return nil, err
	}
	f := &faults{}
	p := f.part(body, "", "version", "CH", "url", "protocol*", "IReq", "Extension*")
	r := &VERes{ID: m.id, Version: p.version()}
	if r.ID != asked.ID {
		note(&f.bad, "Message.id")
	}
	ch := p.part("CH", true, "enrolled", "acctID")
	r.Enrolled = ch.need("enrolled", oneOf("YNU"))
	var refused bool
	if r.IReq, refused = p.iReq(); refused && r.Enrolled == "Y" {
		note(&f.bad, "IReq")
	}
	if r.Enrolled == "Y" {
		r.AcctID = ch.need("acctID", func(s string) bool { return text(1, 28)(s) && s != asked.PAN })
		r.URL = p.need("url", o.isPage)
		p.needThreeDSecure()
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// needThreeDSecure wants ThreeDSecure among the protocols of the access control server.
func (p part) needThreeDSecure() {
	if p.child("protocol") == nil {
		note(&p.f.missing, "protocol")
		return
	}
	for _, c := range p.children {
		if s, _ := c.Text(); c.Local == "protocol" && s == "ThreeDSecure" {
			return
		}
	}
	note(&p.f.bad, "protocol")
}

// isPage reports whether a browser may be sent to this address.
func (o Options) isPage(s string) bool {
	policy := browserurl.Policy{Lab: o.Lab}
	return len(s) <= MaxURL && policy.Check(s) == nil
}

// MaxCRRes is how many bytes of a CRRes are read: room for 200,000 ranges.
const MaxCRRes = 16 << 20

// ReadCRRes reads what a directory server answers to asked. The error is a *[Fault] if any
// part of the answer cannot be used, or an *[Error] if it is one.
func ReadCRRes(doc []byte, asked *CRReq) (*CRRes, error) {
	f, r, ranges := &faults{}, &CRRes{}, 0
	m, body, err := openAnswer(doc, xmldsig.Limits{Size: MaxCRRes, Stream: &xmldsig.Stream{
		At: []string{"ThreeDSecure", "Message", "CRRes", "CR"},
		Each: func(e *xmldsig.Element) {
			ranges++
			if c := f.readCR(e); f.err() == nil {
				r.Ranges = append(r.Ranges, c)
			}
		},
	}}, "CRRes")
	if err != nil {
		return nil, err
	}
	p := f.part(body, "", "version", "serialNumber", "IReq")
	p.version()
	r.ID = m.id
	if r.ID != asked.ID {
		note(&f.bad, "Message.id")
	}
	serial := text(1, 20)
	switch ireq, refused := p.iReq(); {
	case refused && (ranges > 0 || p.child("serialNumber") != nil):
		note(&f.bad, "IReq")
	case refused:
		r.IReq = ireq
	case ranges > 0:
		r.Serial = p.need("serialNumber", serial)
	default:
		r.Serial = p.may("serialNumber", serial)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return r, nil
}

func (f *faults) readCR(e *xmldsig.Element) CR {
	p := f.part(e, "CR", "begin", "end", "action")
	pan := digits(13, 19)
	c := CR{Begin: p.need("begin", pan), End: p.need("end", pan), Delete: p.need("action", oneOf("AD")) == "D"}
	if c.Begin != "" && c.End != "" && (len(c.Begin) != len(c.End) || c.Begin > c.End) {
		note(&f.bad, "CR.end")
	}
	return c
}

// openAnswer returns the body of an answer, which must have this name. If it is an Error,
// that is the error.
func openAnswer(doc []byte, limits xmldsig.Limits, name string) (*envelope, *xmldsig.Element, error) {
	m, err := open(doc, limits)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case m.sole("Error"):
		return nil, nil, readError(m.id, m.bodies[0])
	case !m.sole(name):
		return nil, nil, &Fault{NotDefined, "Message: not a " + name}
	}
	return m, m.bodies[0], nil
}

// readError reads an Error, and ignores what is wrong with it: an Error is not answered.
func readError(id string, body *xmldsig.Element) *Error {
	p := (&faults{}).part(body, "", "version", "errorCode", "errorMessage", "errorDetail", "vendorCode")
	free := text(0, 2048)
	return &Error{
		ID: id, Code: p.may("errorCode", digits(1, 4)), Message: p.may("errorMessage", free),
		Detail: p.may("errorDetail", free), VendorCode: p.may("vendorCode", free),
	}
}

// Error makes an Error an error. Its text has the code, and none of the words
// that the peer chose.
func (e *Error) Error() string {
	if e.Code == "" {
		return "v1: the peer answered with an Error without code"
	}
	return fmt.Sprintf("v1: the peer answered with Error %s", e.Code)
}

// Answer returns the Error to send for a fault; id is that of the message at
// fault, or of ours that it should have answered.
func (f *Fault) Answer(id string) *Error {
	return &Error{ID: id, Code: f.Code, Message: errorMessages[f.Code], Detail: f.Detail}
}

// errorMessages are the texts that go with the codes of an Error.
var errorMessages = map[string]string{
	RootInvalid:      "Root element invalid",
	NotDefined:       "Message element not a defined message",
	ElementMissing:   "Required element missing",
	CriticalUnknown:  "Critical element not recognized",
	FormatInvalid:    "Format of one or more elements is invalid",
	VersionTooOld:    "Protocol version too old",
	TransientTrouble: "Transient system failure",
	PermanentTrouble: "Permanent system failure",
}
