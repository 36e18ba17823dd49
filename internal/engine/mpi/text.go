package mpi

import "cmp"

// serialUnknown is the iReqCode of a CRRes whose CRReq named a serial number
// that the directory server does not know.
const serialUnknown = "57"

// iReqTexts say why a directory server refused a request, by its iReqCode.
var iReqTexts = map[string]string{
	"50":          "Acquirer not participating",
	"51":          "Merchant not participating",
	"52":          "Password required",
	"53":          "Incorrect password",
	"54":          "Country or currency code not valid",
	"55":          "Transaction data not valid",
	"56":          "Request sent to the wrong server",
	serialUnknown: "Serial number unknown",
	"58":          "Client certificate not accepted",
	"98":          "Transient failure of the directory server",
	"99":          "Permanent failure of the directory server",
}

// iReqText says why a directory server refused a request.
func iReqText(code string) string {
	return cmp.Or(iReqTexts[code], "Request refused by the directory server")
}
