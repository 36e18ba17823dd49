package merchant

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/state/account"
)

// A Format is a form of files with many merchants.
type Format string

// The formats. JSON is an array of merchants, CSV has a line for each below a line with the keys.
const (
	JSON Format = "json"
	CSV  Format = "csv"
)

// ParseFormat reads a format.
func ParseFormat(text string) (Format, error) {
	if f := Format(text); f == JSON || f == CSV {
		return f, nil
	}
	return "", errors.New("want json or csv")
}

// A FileEntry is a merchant of a file, with the line on which it begins.
type FileEntry struct {
	Line int
	account.Merchant
}

// A FileFault is what is wrong with one line of a file.
type FileFault struct {
	Line int    // from 1
	Key  string // as the configuration calls it; "" for the line as a whole
	Text string
}

// Write writes merchants in a form that Read reads.
func Write(w io.Writer, f Format, all []account.Merchant) error {
	if f == CSV {
		return writeCSV(w, all)
	}
	if all == nil {
		all = []account.Merchant{}
	}
	for i := range all {
		all[i].Page.LogoType = "" // it is found, not taken
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(all)
}

// Read reads the merchants of a file, and returns all that is wrong with its form. The values are for
// [Registry.Check].
func Read(data []byte, f Format) ([]FileEntry, []FileFault) {
	if f == CSV {
		return readCSV(data)
	}
	return readJSON(data)
}

// A column is one key of a merchant in CSV, without the keys below per_directory.
type column struct {
	key string
	get func(*account.Merchant) string
	set func(*account.Merchant, string) error
}

// perDirectory begins the names of the columns for single directories. SCHEME.KEY follows.
const perDirectory = "per_directory."

// columns returns the columns of CSV, in their order.
func columns() []column {
	text := func(key string, field func(*account.Merchant) *string) column {
		return column{key, func(m *account.Merchant) string { return *field(m) },
			func(m *account.Merchant, value string) error { *field(m) = value; return nil }}
	}
	truth := func(key string, field func(*account.Merchant) *bool) column {
		return column{key, func(m *account.Merchant) string {
			if !*field(m) {
				return ""
			}
			return "true"
		}, func(m *account.Merchant, value string) (err error) {
			if *field(m), err = strconv.ParseBool(cmp.Or(value, "false")); err != nil {
				return errors.New("want true or false")
			}
			return nil
		}}
	}
	return []column{
		text("name", func(m *account.Merchant) *string { return &m.Name }),
		text("group", func(m *account.Merchant) *string { return &m.Group }),
		text("merchant_name", func(m *account.Merchant) *string { return &m.MerchantName }),
		text("mcc", func(m *account.Merchant) *string { return &m.MCC }),
		text("merchant_country", func(m *account.Merchant) *string { return &m.MerchantCountry }),
		text("requestor_url", func(m *account.Merchant) *string { return &m.RequestorURL }),
		text("requestor_id", func(m *account.Merchant) *string { return &m.RequestorID }),
		text("requestor_name", func(m *account.Merchant) *string { return &m.RequestorName }),
		text("acquirer_country", func(m *account.Merchant) *string { return &m.AcquirerCountry }),
		text("scheme_rules", func(m *account.Merchant) *string { return &m.SchemeRules }),
		truth("bridging", func(m *account.Merchant) *bool { return &m.Bridging }),
		truth("transliterate", func(m *account.Merchant) *bool { return &m.Transliterate }),
		{"rate", func(m *account.Merchant) string { text, _ := m.Rate.MarshalText(); return string(text) },
			func(m *account.Merchant, value string) error { return m.Rate.UnmarshalText([]byte(value)) }},
		{"in_flight", func(m *account.Merchant) string {
			if m.InFlight == 0 {
				return ""
			}
			return strconv.Itoa(m.InFlight)
		}, func(m *account.Merchant, value string) (err error) {
			if m.InFlight, err = strconv.Atoi(cmp.Or(value, "0")); err != nil {
				return errors.New("want a whole number")
			}
			return nil
		}},
		{"origins", func(m *account.Merchant) string { return strings.Join(m.Origins, " ") },
			func(m *account.Merchant, value string) error { m.Origins = strings.Fields(value); return nil }},
		text("page.colour", func(m *account.Merchant) *string { return &m.Page.Colour }),
		text("page.accent", func(m *account.Merchant) *string { return &m.Page.Accent }),
		{"page.logo", func(m *account.Merchant) string { return base64.StdEncoding.EncodeToString(m.Page.Logo) },
			func(m *account.Merchant, value string) (err error) {
				if m.Page.Logo, err = base64.StdEncoding.DecodeString(value); err != nil {
					return errors.New("want the file in base64")
				}
				return nil
			}},
	}
}

// directoryFields are the keys below per_directory.SCHEME, and directoryKeys their order.
var (
	directoryFields = map[string]func(*account.Requestor) *string{
		"acquirer_bin":         func(r *account.Requestor) *string { return &r.AcquirerBIN },
		"acquirer_merchant_id": func(r *account.Requestor) *string { return &r.AcquirerMerchantID },
		"requestor_id":         func(r *account.Requestor) *string { return &r.ID },
		"requestor_name":       func(r *account.Requestor) *string { return &r.Name },
	}
	directoryKeys = slices.Sorted(maps.Keys(directoryFields))
)

// DirectoryKeys returns the keys that a merchant has below per_directory for each scheme.
func DirectoryKeys() []string { return slices.Clone(directoryKeys) }

// SetForDirectory sets what a key below per_directory has for a scheme. When a scheme has no value left, it is removed.
func SetForDirectory(m *account.Merchant, scheme, key, value string) error {
	field := directoryFields[key]
	if field == nil {
		return fmt.Errorf("unknown key%s (allowed: %s)", hint.For(key, directoryKeys...), strings.Join(directoryKeys, ", "))
	}
	all := maps.Clone(m.PerDirectory)
	if all == nil {
		all = make(map[string]account.Requestor)
	}
	r := all[scheme]
	*field(&r) = value
	all[scheme] = r
	if r == (account.Requestor{}) {
		delete(all, scheme)
	}
	m.PerDirectory = all
	return nil
}

// ForDirectory returns what a key below per_directory has for a scheme.
func ForDirectory(m *account.Merchant, scheme, key string) string {
	r := m.PerDirectory[scheme]
	return *directoryFields[key](&r)
}

// directoryColumn returns the column of a key for one scheme.
func directoryColumn(scheme, key string) column {
	return column{perDirectory + scheme + "." + key,
		func(m *account.Merchant) string { return ForDirectory(m, scheme, key) },
		func(m *account.Merchant, value string) error { return SetForDirectory(m, scheme, key, value) }}
}

// formula is the beginning of a text that a spreadsheet takes for a formula, perhaps after quotes. A quote before it
// makes it a text, for spreadsheets and for readCSV.
var formula = regexp.MustCompile(`^'*[=+\-@\t\r]`)

func writeCSV(w io.Writer, all []account.Merchant) error {
	table := columns()
	var schemes []string
	for i := range all {
		schemes = append(schemes, slices.Collect(maps.Keys(all[i].PerDirectory))...)
	}
	slices.Sort(schemes)
	for _, scheme := range slices.Compact(schemes) {
		for _, key := range directoryKeys {
			table = append(table, directoryColumn(scheme, key))
		}
	}
	out := csv.NewWriter(w)
	row := make([]string, len(table))
	for i, c := range table {
		row[i] = c.key
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for m := range all {
		for i, c := range table {
			if row[i] = c.get(&all[m]); formula.MatchString(row[i]) {
				row[i] = "'" + row[i]
			}
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func readCSV(data []byte) (all []FileEntry, faults []FileFault) {
	in := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	header, err := in.Read()
	if err != nil {
		return nil, []FileFault{{1, "", "the first line has no keys, such as name,mcc,merchant_country"}}
	}
	table := make([]column, len(header))
	for i, key := range header {
		if table[i], err = columnOf(key); err != nil {
			faults = append(faults, FileFault{1, key, err.Error()})
		} else if slices.Contains(header[:i], key) {
			faults = append(faults, FileFault{1, key, "is there twice"})
		}
	}
	if !slices.Contains(header, "name") {
		faults = append(faults, FileFault{1, "name", "the column is missing"})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	for {
		row, err := in.Read()
		if err == io.EOF {
			return all, faults
		}
		if failed, ok := errors.AsType[*csv.ParseError](err); ok {
			faults = append(faults, FileFault{failed.StartLine, "", failed.Err.Error()})
			if errors.Is(err, csv.ErrFieldCount) {
				continue
			}
			return all, faults // the rest cannot be read
		}
		line, _ := in.FieldPos(0)
		e := FileEntry{Line: line}
		for i, value := range row {
			if strings.HasPrefix(value, "'") && formula.MatchString(value) {
				value = value[1:]
			}
			if value == "" {
				continue
			}
			if err := table[i].set(&e.Merchant, value); err != nil {
				faults = append(faults, FileFault{line, table[i].key, err.Error()})
			}
		}
		all = append(all, e)
	}
}

// columnOf returns the column of a key.
func columnOf(key string) (column, error) {
	var keys []string
	for _, c := range columns() {
		if c.key == key {
			return c, nil
		}
		keys = append(keys, c.key)
	}
	if rest, ok := strings.CutPrefix(key, perDirectory); ok {
		scheme, key, _ := strings.Cut(rest, ".")
		if scheme != "" && directoryFields[key] != nil {
			return directoryColumn(scheme, key), nil
		}
		return column{}, fmt.Errorf("want %sSCHEME.KEY with one of %s", perDirectory, strings.Join(directoryKeys, ", "))
	}
	return column{}, fmt.Errorf("unknown key%s", hint.For(key, keys...))
}

func readJSON(data []byte) (all []FileEntry, faults []FileFault) {
	in := json.NewDecoder(bytes.NewReader(data))
	lineOf := func(offset int64) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }
	if start, err := in.Token(); err != nil || start != json.Delim('[') {
		return nil, []FileFault{{1, "", "want an array of merchants in JSON"}}
	}
	for in.More() {
		var members map[string]json.RawMessage
		end := in.InputOffset()
		begin := end + int64(len(data[end:])-len(bytes.TrimLeft(data[end:], ", \t\r\n")))
		if err := in.Decode(&members); err != nil {
			text := "is no object of JSON: nothing after it was read"
			return all, append(faults, FileFault{lineOf(begin), "", text})
		}
		e := FileEntry{Line: lineOf(begin)}
		for _, key := range slices.Sorted(maps.Keys(members)) {
			if err := setMember(&e.Merchant, key, members[key]); err != nil {
				faults = append(faults, FileFault{e.Line, key, err.Error()})
			}
		}
		all = append(all, e)
	}
	if _, err := in.Token(); err != nil {
		faults = append(faults, FileFault{lineOf(in.InputOffset()), "", "the array has no end"})
	}
	return all, faults
}

// setMember sets one member of a merchant.
func setMember(m *account.Merchant, key string, value json.RawMessage) error {
	one, err := json.Marshal(map[string]json.RawMessage{key: value})
	if err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(one))
	in.DisallowUnknownFields()
	err = in.Decode(m)
	_, isType := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case err == nil:
		return nil
	case isType:
		return errors.New("has the wrong type")
	case strings.HasPrefix(err.Error(), "json: unknown field") && slices.Contains(memberKeys(), key):
		return errors.New("has an unknown key in it")
	case strings.HasPrefix(err.Error(), "json: unknown field"):
		return fmt.Errorf("unknown key%s", hint.For(key, memberKeys()...))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// memberKeys returns the keys of a merchant.
func memberKeys() []string {
	keys := []string{"page", "per_directory"}
	for _, c := range columns() {
		if !strings.Contains(c.key, ".") {
			keys = append(keys, c.key)
		}
	}
	return keys
}
