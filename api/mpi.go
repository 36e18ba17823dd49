package api

// An Enrollment is the answer of POST /enrolled, of 3-D Secure 1.0.2: whether a card takes part.
type Enrollment struct {
	// With Y, where the browser posts PaReq, TermUrl and MD.
	ACSURL Text `json:"acs_url" schema:"format=uri"`
	PAReq  Text `json:"pareq"` // With Y, the value of the form field PaReq.
	// Y takes part; N does not; U cannot be said; null when the directory server refused or failed.
	Enrolled Text             `json:"enrolled" schema:"enum=Y|N|U"`
	ECI      string           `json:"eci" schema:"enum=0|1|2|5|6|7"`
	Error    *EnrollmentError `json:"error"` // Null unless the directory server refused or failed.
}

// An EnrollmentError is what a directory server of 1.0.2 said, or what became of it.
type EnrollmentError struct {
	Message string `json:"message"`
	Detail  string `json:"detail"`
}

// A CheckRequest is the body of POST /check.
type CheckRequest struct {
	PARes string `json:"pares"` // The form field PaRes as the browser brought it.
}

// A Checked is the answer of POST /check: what the issuer signed in a PARes, as signed.
type Checked struct {
	Amount        string `json:"amount"` // In minor units.
	Currency      string `json:"currency" schema:"pattern=^[A-Z]{3}$"`
	CAVV          string `json:"cavv"`           // Empty with N and U.
	CAVVAlgorithm string `json:"cavv_algorithm"` // Empty with N and U.
	ECI           string `json:"eci" schema:"enum=0|1|2|5|6|7"`
	MerchantID    string `json:"merchant_id"`
	Last4         string `json:"last4"` // The last four digits of the card; 0000 with N and U.
	Status        string `json:"status" schema:"enum=Y|A|N|U"`
	XID           string `json:"xid"`
}

// An MPIError is the answer of /enrolled and /check that is no success.
type MPIError struct {
	Error MPIFault `json:"error"`
}

// An MPIFault says what is wrong with a request of 1.0.2.
type MPIFault struct {
	Param   Text   `json:"param"` // The first parameter that is wrong.
	Type    string `json:"type" schema:"enum=presence|invalid_param|invalid_request|unauthorized|merchant_disabled|rate_limit|unavailable|internal"`
	Message Text   `json:"message"`
}
