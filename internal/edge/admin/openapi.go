package admin

import (
	_ "embed"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/peers/rangequery"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// description is made by tools/docgen of [Operations].
//
//go:embed openapi.json
var description []byte

// describe returns the description of this API in OpenAPI.
func describe(*Handler, *request) (any, error) { return json.RawMessage(description), nil }

// An Operation is what there is to know of one operation of this API.
type Operation struct {
	Method, Path string // Path is below [Prefix], with names in braces
	Act          string // its name in the table of package ops
	Least        operator.Role
	IsForOwn     bool // tokens of one merchant may call it too
	IsForGroups  bool // tokens of a group of merchants may call it too
	Summary      string
	Parameters   []string // of the address
	Body         any      // a value of the type of the body; nil: it takes none
	// a value of each type that the answer may have; a [File] stands for a media type; none: there is no answer
	Answers []any
}

// A File is the media type of an answer that is not JSON.
type File string

// Operations returns all operations of this API.
func Operations() (all []Operation) {
	for _, rt := range routes() {
		key, act := rt.method+" "+rt.path, ops.Find(rt.act)
		o := Operation{
			rt.method, rt.path, act.Name, act.Least, act.IsForOwn, act.IsForGroups, rt.summary, queries[key], nil, answers[key],
		}
		if act.Answer != nil {
			o.Answers = []any{act.Answer}
		}
		if rt.method == http.MethodPost || rt.method == http.MethodPatch {
			o.Body = bodies[rt.path]
		}
		all = append(all, o)
	}
	return all
}

// checkParameters refuses parameters in an address that the operation does not have, or that are there twice. The error
// does not repeat an unknown name.
func (rt *route) checkParameters(r *http.Request) error {
	known := queries[rt.method+" "+rt.path]
	for name, values := range r.URL.Query() {
		switch {
		case name == "acctNumber" && rt.path == "authentications":
			return refuse(http.StatusBadRequest, "acctNumber: POST it to %sauthentications/search.", Prefix)
		case len(known) == 0:
			return refuse(http.StatusBadRequest, "The address has a parameter, and this operation has none.")
		case !slices.Contains(known, name):
			return refuse(http.StatusBadRequest, "The address has a parameter that is none of this operation: want one of %s.",
				strings.Join(known, ", "))
		case len(values) > 1:
			return refuse(http.StatusBadRequest, "%s: send it once.", name)
		}
	}
	return nil
}

// queries are the names of parameters in addresses, by operation.
var queries = map[string][]string{
	"GET audit":                {"who", "action", "object", "from", "to", "limit", "cursor"},
	"GET audit/export":         {"who", "action", "object", "from", "to"},
	"GET journal/export":       {"merchant", "from", "to", "format"},
	"GET authentications":      append([]string{"limit"}, slices.Sorted(maps.Keys(new(RecordQuery).recordFields()))...),
	"GET reports":              {"by", "from", "to"},
	"GET billing":              {"from", "to"},
	"GET reports/mandates":     {"from", "to"},
	"GET webhook-endpoints":    {"merchant"},
	"GET events":               {"merchant", "endpoint", "type", "authentication", "from", "to", "limit", "cursor"},
	"GET overview":             {"from", "to"},
	"GET ranges/{scheme}":      {"prefix"},
	"GET ranges/{scheme}/diff": {"old", "new"},
	"POST explain":             {"merchant"},
	"DELETE merchants/{name}":  {"version"},
}

// A MerchantChange is the body of PATCH merchants/{name}. A member that is null goes back to its default.
type MerchantChange struct {
	Version string `json:"version,omitempty"` // that of the merchant as GET shows it
	Name    string `json:"name,omitempty"`    // the same
	account.Merchant
}

// bodies are values of the types of bodies, by path.
var bodies = map[string]any{
	"keys":                     api.NewKey{},
	"merchants":                account.Merchant{},
	"merchants/{name}":         MerchantChange{},
	"merchants/{name}/disable": api.DisableRequest{},
	"authentications/search":   RecordQuery{},
	"journal/erase":            api.EraseRequest{},
	"journal/holds":            api.HoldRequest{},
	"operators":                api.NewOperator{},
	"operators/{name}":         api.RoleChange{},
	"webhook-endpoints":        api.MerchantEndpointChange{},
	"webhook-endpoints/{id}":   api.MerchantEndpointChange{},
	"events/resend":            api.ResendRequest{},
	"tokens":                   api.NewToken{},
	"ranges/{scheme}/accept":   api.AcceptRequest{},
	"ranges/{scheme}/refresh":  struct{}{},
	"explain":                  json.RawMessage{}, // a body of /auth or of an authentication, or a text with a message

	"certificates/{scheme}/request":  api.CertificateRequest{},
	"certificates/{scheme}/install":  api.CertificateInstallation{},
	"certificates/{scheme}/activate": struct{}{},
	"certificates/{scheme}/rollback": struct{}{},
	"certificates/{scheme}/test":     struct{}{},
}

// answers are values of the types of answers, by operation.
var answers = map[string][]any{
	"GET openapi.json":              {json.RawMessage{}},
	"GET keys":                      {api.List[ops.Key]{}},
	"POST keys":                     {api.MadeKey{}},
	"GET merchants":                 {api.List[merchant.Entry]{}},
	"GET merchants/{name}":          {merchant.Entry{}},
	"POST merchants":                {merchant.Entry{}},
	"PATCH merchants/{name}":        {merchant.Entry{}},
	"POST merchants/{name}/disable": {merchant.Entry{}},
	"GET authentications":           {api.List[journal.Record]{}},
	"GET authentications/{id}":      {journal.Detail{}},
	"POST authentications/search":   {api.List[journal.Record]{}},
	"GET reports":                   {api.List[ReportRow]{}},
	"GET billing":                   {api.List[journal.BillingCount]{}},
	"GET reports/mandates":          {api.List[MandateRow]{}},
	"GET overview":                  {Overview{}},
	"GET nodes":                     {api.List[cluster.Member]{}},
	"GET configuration":             {Configuration{}},
	"GET directories":               {api.List[Directory]{}},
	"GET ranges":                    {api.List[RangesOfScheme]{}},
	"GET ranges/{scheme}":           {FoundRanges{}},
	"GET ranges/{scheme}/diff":      {rangequery.Difference{}},

	"POST ranges/{scheme}/accept":         {RangesOfScheme{}},
	"POST ranges/{scheme}/refresh":        {RangesOfScheme{}},
	"GET tokens":                          {api.List[operator.Token]{}},
	"POST tokens":                         {api.MadeToken{}},
	"GET operators":                       {api.List[operator.User]{}},
	"POST operators":                      {api.Invited{}},
	"PATCH operators/{name}":              {operator.User{}},
	"GET audit":                           {api.List[operator.Entry]{}},
	"GET audit/export":                    {File("application/jsonl")},
	"GET journal/export":                  {File("application/jsonl"), File("text/csv")},
	"POST journal/erase":                  {ops.Erased{}},
	"GET journal/holds":                   {journal.Holds{}},
	"POST journal/holds":                  {ops.AddedHold{}},
	"GET certificates":                    {api.List[*CertificatesOfScheme]{}},
	"GET certificates/{scheme}":           {CertificatesOfScheme{}},
	"POST certificates/{scheme}/request":  {CertificatesOfScheme{}},
	"POST certificates/{scheme}/install":  {CertificatesOfScheme{}},
	"POST certificates/{scheme}/activate": {CertificatesOfScheme{}},
	"POST certificates/{scheme}/rollback": {CertificatesOfScheme{}},
	"POST certificates/{scheme}/test":     {ops.CertificateTest{}},
	"GET webhook-endpoints":               {api.List[api.MerchantEndpoint]{}},
	"POST webhook-endpoints":              {api.MerchantEndpoint{}},
	"GET webhook-endpoints/{id}":          {api.MerchantEndpoint{}},
	"PATCH webhook-endpoints/{id}":        {api.MerchantEndpoint{}},
	"GET events":                          {api.List[api.MerchantEvent]{}},
	"POST events/resend":                  {api.Resent{}},
	"GET events/{id}":                     {api.MerchantEventWithDeliveries[api.AuthenticationSummary]{}},
	"POST explain":                        {api.ExplainedRequest{}, api.ExplainedMessage{}},
}
