package v1

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"regexp"
	"strings"

	"github.com/openthreeds/threeds/internal/base/iso"
)

// xidLen is how many bytes an xid has.
const xidLen = 20

// XID returns the xid of an order: the base64 of the order's id, filled up on the left
// with the digit 0 to 20 bytes. An id of more than 20 bytes, which 20 characters outside
// ASCII can have, is replaced by the first 20 bytes of its SHA-256.
func XID(orderID string) string {
	raw := []byte(orderID)
	if len(raw) > xidLen {
		sum := sha256.Sum256(raw)
		raw = sum[:xidLen]
	}
	fill := strings.Repeat("0", xidLen-len(raw))
	return base64.StdEncoding.EncodeToString(append([]byte(fill), raw...))
}

// NewMessageID makes a Message id: 30 hexadecimal digits, which is as long as
// old peers allow. It has no 13 decimal digits in a row, which the log would hide
// as a card number. It reads 15 bytes of rand at a time, which must not fail.
func NewMessageID(rand io.Reader) string {
	for {
		var id [15]byte
		if _, err := io.ReadFull(rand, id[:]); err != nil {
			panic("v1: random source: " + err.Error())
		}
		if text := hex.EncodeToString(id[:]); !cardDigits.MatchString(text) {
			return text
		}
	}
}

// cardDigits are as many digits as the shortest card number has.
var cardDigits = regexp.MustCompile(`[0-9]{13}`)

// DisplayAmount returns an amount as the cardholder is shown it, "216.01 DKK". The amount
// is 1-12 digits in minor units, the currency the three letters of one that we know; ok is
// false if one of them is not.
func DisplayAmount(amount, currency string) (display string, ok bool) {
	_, exponent, ok := iso.CurrencyAlpha(currency)
	if !ok || !digits(1, 12)(amount) {
		return "", false
	}
	amount = strings.TrimLeft(amount, "0")
	if short := exponent + 1 - len(amount); short > 0 {
		amount = strings.Repeat("0", short) + amount
	}
	point := len(amount) - exponent
	if exponent > 0 {
		amount = amount[:point] + "." + amount[point:]
	}
	return amount + " " + currency, true
}

// Expiry returns the expiry date of a card as a PAReq has it, YYMM. The month has two
// digits, the year four.
func Expiry(month, year string) string { return year[2:] + month }

// An Outcome is what an electronic commerce indicator (ECI) stands for.
type Outcome int

const (
	Success     Outcome = iota // authenticated, or enrolled and likely to be
	Attempt                    // attempted, or not enrolled
	Unavailable                // could not be performed
	Failure                    // failed, or no answer came
)

// ECI returns the indicator as the API has it, one digit (docs/api.md, M3 and
// M7). Mastercard has its own; all other schemes have the same.
func ECI(scheme string, o Outcome) string {
	if scheme == "mastercard" {
		return [...]string{Success: "2", Attempt: "1", Unavailable: "1", Failure: "0"}[o]
	}
	return [...]string{Success: "5", Attempt: "6", Unavailable: "7", Failure: "7"}[o]
}
