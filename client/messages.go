package client

import (
	"encoding/json"
	"slices"
)

// A PreauthRequest is what [Client.Preauth] sends.
type PreauthRequest struct {
	AcctNumber string `json:"acctNumber"`
	// DS chooses among the schemes of a card that has several, by the word of a directory: visa, cb. It may be empty.
	DS string `json:"ds,omitempty"`
}

// A CRD says how a card can be authenticated.
type CRD struct {
	Answer `json:"-"`

	ThreeDSServerTransID string `json:"threeDSServerTransID"` // of the AReq; valid for 80 s
	Scheme               string `json:"scheme"`

	ACSProtocolVersions           []ACSVersion `json:"acsProtocolVersions"`
	DSProtocolVersions            []string     `json:"dsProtocolVersions"`
	ThreeDSServerProtocolVersions []string     `json:"threeDSServerProtocolVersions"`
	ThreeDSMethodURL              string       `json:"threeDSMethodURL"` // in the highest of the common versions
	ACSInfoInd                    []string     `json:"acsInfoInd"`       // in the same
}

// An ACSVersion is a protocol version that the issuer speaks, and what is different in it.
type ACSVersion struct {
	Version          string   `json:"version"`
	ThreeDSMethodURL string   `json:"threeDSMethodURL"`
	ACSInfoInd       []string `json:"acsInfoInd"`
}

// Versions returns the protocol versions that issuer, directory server and 3DS Server have in common, the lowest
// first. An AReq has one of them as its messageVersion.
func (c *CRD) Versions() []string {
	var common []string
	for _, v := range c.ThreeDSServerProtocolVersions {
		if slices.Contains(c.DSProtocolVersions, v) && c.acs(v) != nil {
			common = append(common, v)
		}
	}
	return common
}

// MethodURL returns where the 3DS Method runs in a protocol version, empty if there is none.
func (c *CRD) MethodURL(version string) string {
	if v := c.acs(version); v != nil {
		return v.ThreeDSMethodURL
	}
	return ""
}

func (c *CRD) acs(version string) *ACSVersion {
	i := slices.IndexFunc(c.ACSProtocolVersions, func(v ACSVersion) bool { return v.Version == version })
	if i < 0 {
		return nil
	}
	return &c.ACSProtocolVersions[i]
}

// An ARes is the issuer's answer to an AReq. Members that are not listed here are in Raw.
type ARes struct {
	Answer `json:"-"`

	MessageVersion       string `json:"messageVersion"`
	ThreeDSServerTransID string `json:"threeDSServerTransID"`
	DSTransID            string `json:"dsTransID"`
	ACSTransID           string `json:"acsTransID"`

	// TransStatus is Y or A for success, C for a challenge, D for a decoupled authentication.
	TransStatus         string         `json:"transStatus"`
	TransStatusReason   string         `json:"transStatusReason"`
	ECI                 string         `json:"eci"`
	AuthenticationValue string         `json:"authenticationValue"`
	CardholderInfo      CardholderInfo `json:"cardholderInfo"`

	ACSURL           string `json:"acsURL"`           // where a browser posts the CReq of a challenge
	ACSSignedContent string `json:"acsSignedContent"` // what an app's SDK begins a challenge with
}

// An RReq is the result of a challenge. Members that are not listed here are in Raw.
type RReq struct {
	Answer `json:"-"`

	MessageVersion       string `json:"messageVersion"`
	ThreeDSServerTransID string `json:"threeDSServerTransID"`
	DSTransID            string `json:"dsTransID"`
	ACSTransID           string `json:"acsTransID"`

	TransStatus         string         `json:"transStatus"`
	TransStatusReason   string         `json:"transStatusReason"`
	ECI                 string         `json:"eci"`
	AuthenticationValue string         `json:"authenticationValue"`
	CardholderInfo      CardholderInfo `json:"cardholderInfo"`

	ChallengeCancel string `json:"challengeCancel"` // why the challenge ended early: 01 by the cardholder
}

// CardholderInfo is a text of the issuer for the cardholder. Since 2.3.1 the message has an object; this is the text in
// it.
type CardholderInfo string

// UnmarshalJSON reads either form.
func (c *CardholderInfo) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = CardholderInfo(text)
		return nil
	}
	var rich struct {
		Text string `json:"text"`
	}
	err := json.Unmarshal(data, &rich)
	*c = CardholderInfo(rich.Text)
	return err
}
