package sandbox

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

//go:embed scenarios/merchants.txt
var merchantsText string

// MerchantTable is scenarios/merchants.txt: what goes wrong for which
// acquirerMerchantID, and how to read it.
func MerchantTable() string { return merchantsText }

// kindsV2 are the faults of each message; what comes after them is a code and a text, a
// code, one of some elements, or nothing.
var kindsV2 = map[string]string{
	"ARes erro": "code text", "ARes silence": "", "ARes late": "", "ARes status": "code", "ARes garbage": "",
	"ARes cut": "", "ARes twice": "", "ARes critical": "", "ARes other": "threeDSServerTransID messageVersion",
	"ARes without": "acsTransID authenticationValue", "ACS down": "", "ACS unframed": "", "ACS stuck": "", "ACS es256": "",
	"CRes garbage": "", "CRes padded": "", "CRes other": "transStatus",
	"CRes mac": "", "CRes enc": "", "CRes kid": "", "CRes counter": "", "CRes content-type": "", "CRes truncated": "",
	"CRes empty-why-info": "", "CRes no-oob-label": "", "CRes wrong-version": "", "CRes not-jwe": "",
	"RReq late": "", "RReq never": "", "RReq twice": "", "RReq cancel": "", "RReq timeout": "",
	"result reason": "", "browser confirms": "",
}

// readMerchants reads the table. A line that it does not understand is an error that names the line.
func readMerchants(text string) (scenario.Faults, error) {
	m := make(scenario.Faults)
	err := scenario.EachLine(text, func(line string) error {
		rest, ok := strings.CutPrefix(line, "merchant ")
		if !ok {
			return fmt.Errorf("%q: want a merchant", line)
		}
		return m.ReadLine(rest, 35, kindsV2)
	})
	return m, err
}
