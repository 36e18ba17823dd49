package main

import (
	"fmt"
	"regexp"
)

const (
	merchantsStart = "<!-- merchants: generated from sandbox/scenarios/merchants.txt -->\n"
	merchantsEnd   = "<!-- end of merchants -->\n"
)

// merchantTable turns the sandbox's text on merchants into a table for people.
func merchantTable(text []byte) (string, error) {
	table := "\n| `acquirerMerchantID` | What goes wrong | What happens then |\n| --- | --- | --- |\n"
	err := eachLine(text, func(line, comment string) error {
		part := merchantLine.FindStringSubmatch(line)
		if part == nil {
			return errUnknown
		}
		does, err := inWords(merchantWording, part[2])
		table += fmt.Sprintf("| `%s` | %s | %s |\n", part[1], does, comment)
		return err
	})
	return table + "\n", err
}

// merchantWording is for the lines of merchants.txt.
var merchantWording = []wording{
	{regexp.MustCompile(`^ARes erro ([0-9]+) (.*)$`), "the directory server answers Erro $1, $2"},
	{regexp.MustCompile(`^ARes silence$`), "the directory server never answers"},
	{regexp.MustCompile(`^ARes late$`), "the directory server takes its time"},
	{regexp.MustCompile(`^ARes status ([0-9]+)$`), "the directory server answers HTTP status $1"},
	{regexp.MustCompile(`^ARes garbage$`), "the directory server answers with a page of HTML"},
	{regexp.MustCompile(`^ARes cut$`), "half an ARes"},
	{regexp.MustCompile(`^ARes twice$`), "ARes in which `transStatus` stands twice"},
	{regexp.MustCompile(`^ARes critical$`), "ARes with an unknown critical extension"},
	{regexp.MustCompile(`^ARes other (.*)$`), "ARes with another `$1`"},
	{regexp.MustCompile(`^ARes without (.*)$`), "ARes without `$1`"},
	{regexp.MustCompile(`^ACS down$`), "the issuer answers a CReq with HTTP status 503"},
	{regexp.MustCompile(`^ACS unframed$`), "the issuer's pages may not stand in a frame"},
	{regexp.MustCompile(`^ACS stuck$`), "the issuer's last page never goes back to the shop"},
	{regexp.MustCompile(`^ACS es256$`), "`acsSignedContent` is signed with ES256"},
	{regexp.MustCompile(`^CRes mac$`), "an SDK gets a CRes with another tag"},
	{regexp.MustCompile(`^CRes enc$`), "an SDK gets a CRes in the other encryption"},
	{regexp.MustCompile(`^CRes kid$`), "an SDK gets a CRes with another `kid`"},
	{regexp.MustCompile(`^CRes counter$`), "an SDK gets a CRes with a wrong `acsCounterAtoS`"},
	{regexp.MustCompile(`^CRes content-type$`), "an SDK gets a CRes as `text/html`"},
	{regexp.MustCompile(`^CRes truncated$`), "an SDK gets half a CRes"},
	{regexp.MustCompile(`^CRes empty-why-info$`), "an SDK gets a CRes with an empty `whyInfoText`"},
	{regexp.MustCompile(`^CRes no-oob-label$`), "an SDK gets a CRes without `oobContinueLabel`"},
	{regexp.MustCompile(`^CRes wrong-version$`), "an SDK gets a CRes of another version"},
	{regexp.MustCompile(`^CRes not-jwe$`), "an SDK gets a CRes that is not encrypted"},
	{regexp.MustCompile(`^CRes garbage$`), "the CRes is no message"},
	{regexp.MustCompile(`^CRes padded$`), "the CRes comes in base64 with `+`, `/` and padding"},
	{regexp.MustCompile(`^CRes other transStatus$`), "the CRes says the opposite of the RReq"},
	{regexp.MustCompile(`^RReq late$`), "the RReq comes after the CRes"},
	{regexp.MustCompile(`^RReq never$`), "no RReq comes"},
	{regexp.MustCompile(`^RReq twice$`), "the RReq comes twice"},
	{regexp.MustCompile(`^RReq cancel$`), "the cardholder gives the challenge up"},
	{regexp.MustCompile(`^RReq timeout$`), "the cardholder does nothing"},
	{regexp.MustCompile(`^result reason$`), "N, R and U have the two digits as `transStatusReason`"},
	{regexp.MustCompile(`^browser confirms$`), "Secure Payment Confirmation comes first, if the AReq of 2.3.1 offers it"},
}
