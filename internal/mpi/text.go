package mpi

// serialUnknown is the iReqCode of a CRRes whose CRReq named a serial number
// that the directory server does not know.
const serialUnknown = "57"

// iReqText says why a directory server refused a request.
func iReqText(code string) string {
	switch code {
	case "50":
		return "Acquirer not participating"
	case "51":
		return "Merchant not participating"
	case "52":
		return "Password required"
	case "53":
		return "Incorrect password"
	case "54":
		return "Country or currency code not valid"
	case "55":
		return "Transaction data not valid"
	case "56":
		return "Request sent to the wrong server"
	case serialUnknown:
		return "Serial number unknown"
	case "58":
		return "Client certificate not accepted"
	case "98":
		return "Transient failure of the directory server"
	case "99":
		return "Permanent failure of the directory server"
	}
	return "Request refused by the directory server"
}
