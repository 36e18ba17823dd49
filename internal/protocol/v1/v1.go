// Package v1 reads and writes the messages of 3-D Secure 1.0.2 that a merchant plug-in sends
// and receives. Use the Marshal methods to write one, [ReadVERes], [ReadCRRes] and
// [OpenPARes] to read an answer. The messages are VEReq and VERes, PAReq and PARes, CRReq and CRRes,
// Error. It touches no network and no clock.
//
// Incoming messages are read strictly: one root, one message, and only known elements,
// each at its place and at most once. A [Fault] says what is wrong; it names elements and
// never values.
package v1

import "time"

// Version is the version of every message.
const Version = "1.0.2"

// A Merchant is the merchant of a request. Name, Country and URL are only in a PAReq,
// Password only in messages to directory servers.
type Merchant struct {
	AcqBIN   string // acquirer BIN, 1-11 digits
	ID       string // merID, 1-24 characters
	Password string // some regions ask for one; "" for none
	Name     string // 1-25 characters
	Country  string // ISO 3166-1, three digits
	URL      string
}

// A VEReq asks a directory server whether a card takes part.
type VEReq struct {
	ID             string // Message id
	PAN            string // 13-19 digits
	Merchant       Merchant
	DeviceCategory string // "0": a browser; "" leaves Browser out
	Accept         string // HTTP headers of the cardholder's browser; may be ""
	UserAgent      string
}

// An IReq says why a directory server or an issuer refused a request.
type IReq struct {
	Code       string // digits; "" when there is no IReq
	Detail     string
	VendorCode string
}

// A VERes is the answer to a VEReq.
type VERes struct {
	ID       string // Message id
	Version  string
	Enrolled string // Y, N, U
	AcctID   string // with Y: the issuer's name for the card
	URL      string // with Y: address of the issuer's access control server
	IReq     IReq
}

// A PAReq goes through the cardholder's browser to the issuer.
type PAReq struct {
	ID            string // Message id: that of the VEReq
	Version       string // that of the VERes
	Merchant      Merchant
	XID           string    // 28 characters: the base64 of 20 bytes
	Date          time.Time // written in GMT, whole seconds
	DisplayAmount string    // 1-20 characters, for people: "216.01 DKK"
	Amount        string    // purchAmount: minor units, 1-12 digits
	Currency      string    // ISO 4217, three digits
	Exponent      int
	Description   string // 0-125 characters
	AcctID        string // as the VERes has it
	Expiry        string // YYMM
}

// A PARes is the issuer's answer to a PAReq, read from bytes whose signature is good.
type PARes struct {
	ID        string // id of the element PARes, which the signature names
	AcqBIN    string
	MerID     string
	XID       string // as signed
	Date      string // of the purchase, as signed: YYYYMMDD HH:MM:SS
	Amount    string // minor units without leading zeros
	Currency  string // ISO 4217, three digits
	Exponent  int
	Last4     string // last four digits of pan; "0000" for N and U
	PANLength int
	Time      time.Time // when the issuer signed, GMT
	Status    string    // Y, N, U, A
	CAVV      string    // with Y and A; as signed
	ECI       string    // with Y and A; two digits
	CAVVAlgo  string    // cavvAlgorithm, with Y and A
	IReq      IReq
}

// An Error is the message that says that another message could not be read: one of this
// server by a peer, or one of a peer by this server.
type Error struct {
	ID         string // Message id
	Code       string
	Message    string
	Detail     string
	VendorCode string
}

// A CRReq asks a directory server for the card ranges that take part.
type CRReq struct {
	ID       string
	Merchant Merchant
	Serial   string // serial number of the last CRRes; "" asks for all ranges
}

// A CR adds a card range, or deletes it.
type CR struct {
	Begin, End string // 13-19 digits, inclusive, of one length
	Delete     bool
}

// A CRRes is the answer to a CRReq.
type CRRes struct {
	ID     string
	Ranges []CR
	Serial string // "" only when there are no Ranges: nothing has changed
	IReq   IReq
}

// Codes of an Error.
const (
	RootInvalid      = "1"
	NotDefined       = "2"
	ElementMissing   = "3"
	CriticalUnknown  = "4"
	FormatInvalid    = "5"
	VersionTooOld    = "6"
	TransientTrouble = "98"
	PermanentTrouble = "99"
)

// A Fault says what is wrong with an incoming message, in the terms of the Error that
// answers it.
type Fault struct {
	Code   string // errorCode of the Error
	Detail string // the elements, never their values
}

func (f *Fault) Error() string { return "v1: error " + f.Code + ": " + f.Detail }
