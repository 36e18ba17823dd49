package journal

import (
	"context"
	"fmt"
	"time"
)

// A FlowQuery says of which time, and of which requests, the flow is wanted. The time is short: each record of it is
// read.
type FlowQuery struct {
	Merchant string // "" for those of all merchants
	From, To time.Time
	Whole    bool // all is added up, to one count for each result

	within []string // as in [Query]
}

// A FlowCount counts the requests of a minute that have a merchant, a scheme and a result in common.
type FlowCount struct {
	Minute   time.Time
	Merchant string
	Scheme   string // "" of a request whose card no scheme has, or that was refused before its card was looked up
	Result   string // as in [Rollup]; "" while there is none, and of requests that were refused
	Flow
}

// A Flow counts requests by how they went.
type Flow struct {
	Requests    int64 `json:"requests"`    // authentications with an AReq, and requests that no authentication came of
	Refused     int64 `json:"refused"`     // by this server
	NotEnrolled int64 `json:"notEnrolled"` // refused, for no directory has the card
	Declined    int64 `json:"declined"`    // the directory server, or one behind it, answered with an Erro
	Unanswered  int64 `json:"unanswered"`  // no usable answer came of the directory server
}

// Add adds what another flow counts.
func (f *Flow) Add(o *Flow) {
	f.Requests += o.Requests
	f.Refused += o.Refused
	f.NotEnrolled += o.NotEnrolled
	f.Declined += o.Declined
	f.Unanswered += o.Unanswered
}

// Sent returns how many AReqs there were.
func (f *Flow) Sent() int64 { return f.Requests - f.Refused - f.NotEnrolled }

// Failed returns how many of those had no good answer.
func (f *Flow) Failed() int64 { return f.Declined + f.Unanswered }

// The classes of requests.
const (
	flowGood = iota
	flowRefused
	flowNotEnrolled
	flowDeclined
	flowUnanswered
)

// flowClass is the class of a record, by its [faultText].
var flowClass = fmt.Sprintf(`CASE
	WHEN kind = 'refused' AND fault LIKE '305 %%' THEN %d
	WHEN kind = 'refused' THEN %d
	WHEN status <> 'failed' OR challenged = 1 THEN %d
	WHEN fault LIKE '%% _' AND fault NOT LIKE '%% S' THEN %d
	ELSE %d END`, flowNotEnrolled, flowRefused, flowGood, flowDeclined, flowUnanswered)

// minuteLen is a minute in milliseconds.
const minuteLen = int64(time.Minute / time.Millisecond)

// flow counts the requests of a time.
func (db *database) flow(ctx context.Context, q FlowQuery) (all []FlowCount, err error) {
	columns := fmt.Sprintf(`made / %d, merchant, scheme`, minuteLen)
	if q.Whole {
		columns = `0, '', ''`
	}
	begin, end := q.From.UnixMilli(), q.To.UnixMilli()
	condition, args := `-made <= ? AND -made > ? AND made >= ? AND made < ?`, []any{-begin, -end, begin, end}
	if isNarrowed(q.Merchant, q.within) {
		of, names := ofMerchants(q.Merchant, q.within)
		condition, args = condition+` AND `+of, append(args, names...)
	}
	rows, err := db.QueryContext(ctx, db.query(fmt.Sprintf(`SELECT %s,
		CASE WHEN result = 'authenticated' AND challenged = 1 THEN '%s' ELSE result END, %s, count(*) FROM journal_records
		WHERE (kind = 'refused' OR (%s)) AND %s GROUP BY 1, 2, 3, 4, 5`, columns, AfterChallenge, flowClass, countedKinds,
		condition)), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var minute int64
		var class int
		var c FlowCount
		if err := rows.Scan(&minute, &c.Merchant, &c.Scheme, &c.Result, &class, &c.Requests); err != nil {
			return nil, err
		}
		c.Minute = time.UnixMilli(minute * minuteLen).UTC()
		if of := []*int64{nil, &c.Refused, &c.NotEnrolled, &c.Declined, &c.Unanswered}[class]; of != nil {
			*of = c.Requests
		}
		all = append(all, c)
	}
	return all, rows.Err()
}
