package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/openthreeds/threeds/api"
)

// An EnrolledRequest is a payment in 3-D Secure 1.0.2.
type EnrolledRequest struct {
	Amount       string // in minor units: 1099
	Currency     string // EUR
	OrderID      string // at most 20 characters
	CardholderIP string // may be empty
	Card         Card
	Merchant     Merchant
}

// A Card is the card of an [EnrolledRequest].
type Card struct{ Number, ExpireMonth, ExpireYear string } // 12 and 2029

// A Merchant is the merchant of an [EnrolledRequest].
type Merchant struct{ AcquirerBIN, ID, Name, Country, URL string } // Country is DK

// Fields yields the names and values of the request's form.
func (r *EnrolledRequest) Fields() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, f := range [][2]string{
			{"amount", r.Amount},
			{"currency", r.Currency},
			{"order_id", r.OrderID},
			{"cardholder_ip", r.CardholderIP},
			{"card[number]", r.Card.Number},
			{"card[expire_month]", r.Card.ExpireMonth},
			{"card[expire_year]", r.Card.ExpireYear},
			{"merchant[acquirer_bin]", r.Merchant.AcquirerBIN},
			{"merchant[id]", r.Merchant.ID},
			{"merchant[name]", r.Merchant.Name},
			{"merchant[country]", r.Merchant.Country},
			{"merchant[url]", r.Merchant.URL},
		} {
			if f[1] != "" && !yield(f[0], f[1]) {
				return
			}
		}
	}
}

// An Enrollment says whether a card takes part in 3-D Secure 1.0.2. Its ACSURL is where a browser posts the PAReq.
type Enrollment struct {
	api.Enrollment
	Answer Answer `json:"-"`
}

func (e *Enrollment) receive(answer Answer) { e.Answer = answer }

// A Checked is what the issuer signed in a PARes.
type Checked struct {
	api.Checked
	Answer Answer `json:"-"`
}

func (c *Checked) receive(answer Answer) { c.Answer = answer }

// A ParameterError says which field of a request the server does not take. From [Client.Check] it may mean that the
// PARes was not signed by an issuer: then there is no authentication.
type ParameterError struct {
	api.MPIFault
	Answer Answer
}

func (e *ParameterError) answer() *Answer { return &e.Answer }

func (e *ParameterError) Error() string {
	return fmt.Sprintf("%s: %s: %s %s", e.Answer.Operation, e.Param, e.Type, e.Message)
}

// Enrolled asks whether a card takes part in 3-D Secure 1.0.2. The call takes 35 s at most.
func (c *Client) Enrolled(ctx context.Context, request EnrolledRequest) (*Enrollment, error) {
	form := make(url.Values)
	for name, value := range request.Fields() {
		form.Set(name, value)
	}
	enrollment := new(Enrollment)
	return orNil(enrollment, c.submit(ctx, enrolled, form, enrollment))
}

// Check verifies the PaRes that a browser brought back and returns what the issuer signed. Compare it with the
// payment. The call takes 15 s at most.
func (c *Client) Check(ctx context.Context, pares string) (*Checked, error) {
	checked := new(Checked)
	return orNil(checked, c.submit(ctx, check, url.Values{"pares": {pares}}, checked))
}

// submit posts a form and reads the answer.
func (c *Client) submit(ctx context.Context, o operation, form url.Values, into receiver) error {
	header := http.Header{
		"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(c.key+":"))},
		"Content-Type":  {"application/x-www-form-urlencoded"},
	}
	answer, err := c.send(ctx, http.MethodPost, o, header, []byte(form.Encode()))
	if err != nil {
		return err
	}
	switch answer.Status {
	case http.StatusOK:
		if json.Unmarshal(answer.Raw, into) == nil {
			into.receive(answer)
			return nil
		}
	case http.StatusBadRequest:
		var refusal api.MPIError
		if json.Unmarshal(answer.Raw, &refusal) == nil && refusal.Error.Type != "" {
			return &ParameterError{refusal.Error, answer}
		}
	}
	return &RefusedError{answer}
}
