package acp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/message"
)

type createRequest struct {
	MerchantID string `json:"merchant_id"`
	Acquirer   *struct {
		BIN          string `json:"acquirer_bin"`
		Country      string `json:"acquirer_country"`
		MerchantID   string `json:"acquirer_merchant_id"`
		MerchantName string `json:"merchant_name"`
		RequestorID  string `json:"requestor_id"`
	} `json:"acquirer_details"`
	Card struct {
		Number string `json:"number"`
		Month  string `json:"exp_month"`
		Year   string `json:"exp_year"`
		Name   string `json:"name"`
	} `json:"payment_method"`
	Amount struct {
		Value    int64  `json:"value"`
		Currency string `json:"currency"`
	} `json:"amount"`
	Flow *struct {
		Type      string `json:"type"`
		Challenge struct {
			Type string `json:"type"`
		} `json:"challenge"`
	} `json:"flow_preference"`
	laterRequest
}

// A laterRequest has the members that either request may have.
type laterRequest struct {
	Channel *struct {
		Browser browserInfo `json:"browser"`
	} `json:"channel"`
	NotificationURL string `json:"challenge_notification_url"`
	Shopper         *struct {
		Email   string `json:"email"`
		Phone   string `json:"phone_number"`
		Address *struct {
			Line1    string `json:"line_one"`
			Line2    string `json:"line_two"`
			City     string `json:"city"`
			State    string `json:"state"`
			Country  string `json:"country"`
			PostCode string `json:"postal_code"`
		} `json:"address"`
	} `json:"shopper_details"`
}

type browserInfo struct {
	Accept       string `json:"accept_header"`
	IP           string `json:"ip_address"`
	HasScript    bool   `json:"javascript_enabled"`
	Language     string `json:"language"`
	UserAgent    string `json:"user_agent"`
	ColorDepth   *int64 `json:"color_depth"`
	HasJava      *bool  `json:"java_enabled"`
	ScreenHeight *int64 `json:"screen_height"`
	ScreenWidth  *int64 `json:"screen_width"`
	TimeZone     *int64 `json:"timezone_offset"`
}

// An areq is members of an AReq, each a string, a boolean, or an object of them.
type areq map[string]any

// set adds a member unless its text is empty.
func (a areq) set(name, value string) {
	if value != "" {
		a[name] = value
	}
}

// Steps are what a request says of the steps of a browser, which its agent takes.
type Steps struct {
	NotificationURL string // where the issuer sends the browser back; "" if a later call names it
	Completion      string // what became of the 3DS Method: Y, N or U; "" if the AReq is not to leave yet
}

// ReadCreate reads the body of a request that creates a session. It returns the members of an AReq, and what is besides
// them. The error is an *[Error].
func ReadCreate(body []byte) (Steps, []byte, error) {
	var r createRequest
	var l faultList
	if err := l.readShape(body, createShape, &r); err != nil {
		return Steps{}, nil, err
	}
	expiry := l.expiryDate(r.Card.Month, r.Card.Year)
	if r.Amount.Value <= 0 {
		l.add("$.amount.value", "must be more than 0")
	}
	currency, _, ok := iso.CurrencyAlpha(r.Amount.Currency)
	if !ok {
		l.add("$.amount.currency", "is no currency of ISO 4217")
	}
	a := areq{
		"acctNumber": r.Card.Number, "cardExpiryDate": expiry, "deviceChannel": "02", "messageCategory": "01",
		"purchaseAmount": strconv.FormatInt(r.Amount.Value, 10), "purchaseCurrency": currency,
	}
	a.set("cardholderName", r.Card.Name)
	if transid.IsReference(r.MerchantID) {
		a["reference"] = r.MerchantID
	}
	if r.Acquirer != nil {
		country := l.country("$.acquirer_details.acquirer_country", r.Acquirer.Country)
		a.set("acquirerBIN", r.Acquirer.BIN)
		a.set("acquirerMerchantID", r.Acquirer.MerchantID)
		a.set("acquirerCountryCode", country)
		a.set("merchantName", r.Acquirer.MerchantName)
		a.set("threeDSRequestorID", r.Acquirer.RequestorID)
	}
	if f := r.Flow; f != nil {
		switch {
		case f.Type == "frictionless":
			a["threeDSRequestorChallengeInd"] = "02"
		case f.Challenge.Type == "mandated":
			a["threeDSRequestorChallengeInd"] = "04"
		default:
			a["threeDSRequestorChallengeInd"] = "03"
		}
	}
	text, err := r.encode(a, &l)
	return Steps{NotificationURL: r.NotificationURL}, text, err
}

// ReadAuthenticate reads the body of a request that has the AReq sent. It returns what ReadCreate does.
func ReadAuthenticate(body []byte) (Steps, []byte, error) {
	var r struct {
		Completion string `json:"fingerprint_completion"`
		laterRequest
	}
	var l faultList
	if err := l.readShape(body, authenticateShape, &r); err != nil {
		return Steps{}, nil, err
	}
	text, err := r.encode(areq{}, &l)
	return Steps{r.NotificationURL, r.Completion}, text, err
}

// encode adds to members those of either request, and returns them as JSON. The error is that of all faults.
func (r *laterRequest) encode(a areq, l *faultList) ([]byte, error) {
	if r.Channel != nil {
		r.Channel.Browser.addTo(a, l)
	}
	if s := r.Shopper; s != nil {
		a.set("email", s.Email)
		if code, subscriber, ok := splitPhone(s.Phone); ok {
			a["mobilePhone"] = areq{"cc": code, "subscriber": subscriber}
		}
		if at := s.Address; at != nil {
			a["billAddrCountry"] = l.country("$.shopper_details.address.country", at.Country)
			a.set("billAddrLine1", at.Line1)
			a.set("billAddrLine2", at.Line2)
			a.set("billAddrCity", at.City)
			a.set("billAddrPostCode", at.PostCode)
			a.set("billAddrState", stateOf(at.State, at.Country))
		}
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil, NewError(http.StatusBadRequest, "", "The body cannot be read")
	}
	return text, nil
}

// addTo adds what is said of a browser to members of an AReq.
func (b *browserInfo) addTo(a areq, l *faultList) {
	a["browserAcceptHeader"], a["browserIP"], a["browserJavascriptEnabled"] = b.Accept, b.IP, b.HasScript
	a["browserLanguage"], a["browserUserAgent"], a["acceptLanguage"] = b.Language, b.UserAgent,
		message.LanguageTags(b.Language)
	for _, m := range []struct {
		path, name string
		value      *int64
	}{
		{"color_depth", "browserColorDepth", b.ColorDepth}, {"screen_height", "browserScreenHeight", b.ScreenHeight},
		{"screen_width", "browserScreenWidth", b.ScreenWidth}, {"timezone_offset", "browserTZ", b.TimeZone},
	} {
		switch path := "$.channel.browser." + m.path; {
		case m.value != nil:
			a[m.name] = strconv.FormatInt(*m.value, 10)
		case b.HasScript:
			l.add(path, "is missing: the browser has JavaScript")
		}
	}
	switch {
	case b.HasJava != nil:
		a["browserJavaEnabled"] = *b.HasJava
	case b.HasScript:
		l.add("$.channel.browser.java_enabled", "is missing: the browser has JavaScript")
	}
}

// country returns the digits of a country of two letters.
func (l *faultList) country(path, letters string) string {
	digits, ok := iso.CountryAlpha2(strings.ToUpper(letters))
	if !ok {
		l.add(path, "is no country of ISO 3166-1")
	}
	return digits
}

// expiryDate returns the end of a card as an AReq has it: YYMM.
func (l *faultList) expiryDate(month, year string) string {
	m, err := strconv.ParseUint(month, 10, 8)
	if err != nil || m < 1 || m > 12 {
		l.add(cardPath+".exp_month", "must be 01 to 12")
	}
	y, err := strconv.ParseUint(year, 10, 16)
	if err != nil || len(year) != 4 || y < 2000 || y > 2099 {
		l.add(cardPath+".exp_year", "must be four digits, 2000 to 2099")
	}
	return fmt.Sprintf("%02d%02d", y-2000, m)
}

// stateOf returns a state as an AReq has it, without the country that may stand before it. It returns "" for
// one that is written out.
func stateOf(state, country string) string {
	state = strings.ToUpper(state)
	state = strings.TrimPrefix(state, strings.ToUpper(country)+"-")
	if len(state) > 3 || strings.Trim(state, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		return ""
	}
	return state
}
