package sandbox

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
)

//go:embed scenarios/merchants.txt
var merchantsText string

// MerchantTable is scenarios/merchants.txt: what goes wrong for which
// acquirerMerchantID, and how to read it.
func MerchantTable() string { return merchantsText }

// A merchantFault is how a message goes wrong for a merchant.
type merchantFault struct {
	message    string // "ARes", "PARes"
	kind       string
	code, text string // of erro, status and reason; in 1.0.2 of ireq, error and status
	element    string // of other and without
}

// is says whether a fault is that one: of the message, of a kind and, where the
// kind has them, for an element.
func (f merchantFault) is(message, kind string, element ...string) bool {
	return f.message == message && f.kind == kind && (element == nil || f.element == element[0])
}

// merchants are the faults by the id of the merchant.
type merchants map[string]merchantFault

// find is the fault of a merchant, none for most. An id that ends in two dots stands for
// all that end in two digits, which are then its code.
func (m merchants) find(id string) merchantFault {
	end := max(0, len(id)-2)
	if f, known := m[id[:end]+".."]; known && digits(id[end:]) {
		f.code = id[end:]
		return f
	}
	return m[id]
}

// kindsV2 are the faults of each message; what comes after them is a code and a text, a
// code, one of some elements, or nothing.
var kindsV2 = map[string]string{
	"ARes erro": "code text", "ARes silence": "", "ARes late": "", "ARes status": "code", "ARes garbage": "", "ARes cut": "",
	"ARes twice": "", "ARes critical": "", "ARes other": "threeDSServerTransID messageVersion", "ARes without": "acsTransID authenticationValue",
	"ACS down": "", "ACS unframed": "", "ACS stuck": "",
	"CRes garbage": "", "CRes padded": "", "CRes other": "transStatus",
	"RReq late": "", "RReq never": "", "RReq twice": "", "RReq cancel": "", "RReq timeout": "",
	"result reason": "", "browser confirms": "",
}

// readMerchants reads the table. It takes nothing for granted: what it does not
// understand is an error that names the line.
func readMerchants(text string) (merchants, error) {
	m := make(merchants)
	err := eachLine(text, func(line string) error {
		rest, ok := strings.CutPrefix(line, "merchant ")
		if !ok {
			return fmt.Errorf("%q: want a merchant", line)
		}
		return m.readLine(rest, 35, kindsV2)
	})
	return m, err
}

// eachLine hands out the lines of a table that say something. The errors name the lines.
func eachLine(text string, read func(line string) error) error {
	var faults []error
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := read(line); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", i+1, err))
		}
	}
	return errors.Join(faults...)
}

// readLine takes an id of up to longest characters and its fault.
func (m merchants) readLine(line string, longest int, kinds map[string]string) error {
	id, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if _, twice := m[id]; twice || id == "" || len(id) > longest {
		return fmt.Errorf("merchant %q: want 1-%d characters, each id once", id, longest)
	}
	f, err := readMerchantFault(strings.Fields(rest), kinds)
	m[id] = f
	return err
}

func readMerchantFault(words []string, kinds map[string]string) (merchantFault, error) {
	if len(words) < 2 {
		return merchantFault{}, errors.New("want a message and what is wrong with it")
	}
	f := merchantFault{message: words[0], kind: words[1]}
	rest := words[2:]
	wants, known := kinds[f.message+" "+f.kind]
	switch {
	case !known:
	case wants == "" && len(rest) == 0:
		return f, nil
	case wants == "code" && len(rest) == 1 && digits(rest[0]):
		f.code = rest[0]
		return f, nil
	case wants == "code text" && len(rest) > 1 && digits(rest[0]):
		f.code, f.text = rest[0], strings.Join(rest[1:], " ")
		return f, nil
	case !strings.HasPrefix(wants, "code") && len(rest) == 1 && slices.Contains(strings.Fields(wants), rest[0]):
		f.element = rest[0]
		return f, nil
	}
	return f, fmt.Errorf("%q is no fault", strings.Join(words, " "))
}
