package mpi

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/base/iso"
)

// The ways in which a parameter can be wrong.
const (
	Presence     = "presence"      // it is missing or empty
	InvalidParam = "invalid_param" // its value is not good, or it is there twice
)

// A ParamError names the first parameter of a request that is wrong.
type ParamError struct {
	Param string
	Type  string // Presence or InvalidParam
}

func (e *ParamError) Error() string { return "mpi: " + e.Param + ": " + e.Type }

// An Enrollment is the request of /enrolled.
type Enrollment struct {
	Amount       string // minor units
	Currency     string // three letters
	OrderID      string
	CardholderIP string // optional

	Card struct {
		Number, ExpireMonth, ExpireYear string
	}
	Merchant struct {
		AcquirerBIN, ID, Name, Country, URL string
	}
}

// params are the parameters of /enrolled, in the order in which they are
// checked.
var params = []struct {
	name     string
	field    func(*Enrollment) *string
	good     func(string) bool
	optional bool
}{
	{name: "amount", field: func(e *Enrollment) *string { return &e.Amount }, good: digits(1, 12)},
	{name: "currency", field: func(e *Enrollment) *string { return &e.Currency }, good: isCurrency},
	{name: "order_id", field: func(e *Enrollment) *string { return &e.OrderID }, good: printable(20)},
	{name: "cardholder_ip", field: func(e *Enrollment) *string { return &e.CardholderIP }, good: isIPAddress,
		optional: true},
	{name: "card[number]", field: func(e *Enrollment) *string { return &e.Card.Number }, good: digits(12, 19)},
	{name: "card[expire_month]", field: func(e *Enrollment) *string { return &e.Card.ExpireMonth }, good: isMonth},
	{name: "card[expire_year]", field: func(e *Enrollment) *string { return &e.Card.ExpireYear }, good: digits(4, 4)},
	{name: "merchant[acquirer_bin]", field: func(e *Enrollment) *string { return &e.Merchant.AcquirerBIN },
		good: digits(6, 11)},
	{name: "merchant[id]", field: func(e *Enrollment) *string { return &e.Merchant.ID }, good: ascii(24)},
	{name: "merchant[name]", field: func(e *Enrollment) *string { return &e.Merchant.Name }, good: printable(25)},
	{name: "merchant[country]", field: func(e *Enrollment) *string { return &e.Merchant.Country }, good: isCountry},
	{name: "merchant[url]", field: func(e *Enrollment) *string { return &e.Merchant.URL }, good: isURL},
}

// ReadEnrollment takes the parameters of /enrolled out of what was sent; others
// are ignored. The error is a *ParamError.
func ReadEnrollment(sent url.Values) (Enrollment, error) {
	var e Enrollment
	for _, p := range params {
		value, err := readParam(sent, p.name, p.good)
		if bad, ok := errors.AsType[*ParamError](err); ok && p.optional && bad.Type == Presence {
			continue
		}
		if err != nil {
			return Enrollment{}, err
		}
		*p.field(&e) = value
	}
	return e, nil
}

// ReadPARes takes the one parameter of /check out of what was sent. The error
// is a *ParamError.
func ReadPARes(sent url.Values) (string, error) {
	return readParam(sent, "pares", func(string) bool { return true })
}

// readParam returns the value of a parameter, if it is there once and good.
func readParam(sent url.Values, name string, good func(string) bool) (string, error) {
	switch values := sent[name]; {
	case len(values) == 0, len(values) == 1 && values[0] == "":
		return "", &ParamError{name, Presence}
	case len(values) > 1, !good(values[0]):
		return "", &ParamError{name, InvalidParam}
	default:
		return values[0], nil
	}
}

func digits(least, most int) func(string) bool {
	return func(s string) bool {
		return least <= len(s) && len(s) <= most && strings.Trim(s, "0123456789") == ""
	}
}

func isMonth(s string) bool { return digits(2, 2)(s) && "01" <= s && s <= "12" }

func isCurrency(s string) bool {
	_, _, ok := iso.CurrencyAlpha(s)
	return ok
}

func isCountry(s string) bool {
	_, ok := iso.CountryAlpha2(s)
	return ok
}

func ascii(most int) func(string) bool {
	return func(s string) bool {
		return len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	}
}

func printable(most int) func(string) bool {
	return func(s string) bool {
		return utf8.ValidString(s) && utf8.RuneCountInString(s) <= most &&
			!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	}
}

func isIPAddress(s string) bool {
	return 3 <= len(s) && len(s) <= 39 && strings.Trim(s, "0123456789.abcdefABCDEF:") == ""
}

func isURL(s string) bool {
	if !ascii(2048)(s) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
}
