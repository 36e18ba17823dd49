package admin

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// A stream is the answer of an operation that has more to say than fits into memory.
type stream struct {
	name, kind string
	write      func(io.Writer) error
	leave      func() // gives the place of the export back
}

// pieceTime is how long one piece of a stream may take to be sent.
const pieceTime = 30 * time.Second

// A pieceWriter gives each piece of a stream its own time to be sent. A server that has no deadlines needs none.
type pieceWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *pieceWriter) Write(piece []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(pieceTime))
	return w.ResponseWriter.Write(piece)
}

// How many exports may be under way on a node. Each holds one of the few connections to the journal's database for as
// long as its client reads.
const (
	maxExports         = 4
	maxExportsPerActor = 2
)

// An exportLimit counts the exports under way. Its zero value is ready to use.
type exportLimit struct {
	mu     sync.Mutex
	all    int
	actors map[string]int
}

// enter takes a place for an export of an actor, or refuses it. Call leave when the export has ended.
func (l *exportLimit) enter(actor string) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.actors[actor] >= maxExportsPerActor {
		return nil, refuse(http.StatusTooManyRequests,
			"You have %d exports under way, which is the maximum. Wait until one has ended.", maxExportsPerActor)
	}
	if l.all >= maxExports {
		return nil, refuse(http.StatusTooManyRequests,
			"There are %d exports under way, which is the maximum. Wait until one has ended.", maxExports)
	}
	if l.actors == nil {
		l.actors = make(map[string]int)
	}
	l.all++
	l.actors[actor]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.actors[actor]--; l.actors[actor] == 0 {
			delete(l.actors, actor)
		}
	}, nil
}

// startExport answers with an export, after that stands in the audit trail, unless too many are under way.
func (h *Handler) startExport(ctx context.Context, by operator.Actor, act string, what any, s stream) (stream, error) {
	leave, err := h.exports.enter(by.Who)
	if err != nil {
		return s, err
	}
	if err := h.Record(ctx, by, act, "", nil, what); err != nil {
		leave()
		return s, err
	}
	s.leave = leave
	return s, nil
}

// answerStream sends a stream. If the stream cannot be read to its end, the connection is cut, so that the client does
// not take what has come for all of it.
func (h *Handler) answerStream(w http.ResponseWriter, s stream) {
	defer s.leave()
	w.Header().Set("Content-Type", s.kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+s.name+`"`)
	w.WriteHeader(http.StatusOK)
	if err := s.write(&pieceWriter{w, http.NewResponseController(w)}); err != nil {
		h.Log.Error("admin API", "file", s.name, "err", err)
		panic(http.ErrAbortHandler)
	}
}

var errNoKeys = refuse(http.StatusServiceUnavailable,
	"There are no keys to sign an export with. The log of the server says why.")

// readAuditQuery returns the search in the audit trail that a request asks for.
func readAuditQuery(r *request) (q operator.Query, err error) {
	asked := r.URL.Query()
	q = operator.Query{Who: asked.Get("who"), Action: asked.Get("action"), Object: asked.Get("object")}
	q.From, q.To, err = readTimes(asked.Get("from"), asked.Get("to"))
	return q, err
}

// checkAudit refuses an actor who may not do an act on the audit trail, and a search for an unknown action.
func checkAudit(by *operator.Actor, act string, q *operator.Query) error {
	if err := ops.Find(act).Check(by); err != nil {
		return err
	}
	if err := ops.CheckAction(q.Action); err != nil {
		return refuse(http.StatusBadRequest, "action: %v.", err)
	}
	return nil
}

func exportAudit(h *Handler, r *request) (any, error) {
	q, err := readAuditQuery(r)
	if err != nil {
		return nil, err
	}
	return h.startAuditExport(r.Context(), r.actor, q)
}

// startAuditExport answers with the audit trail, after that stands in it.
func (h *Handler) startAuditExport(ctx context.Context, by operator.Actor, q operator.Query) (stream, error) {
	if err := checkAudit(&by, "audit export", &q); err != nil {
		return stream{}, err
	}
	if h.JournalKeys == nil {
		return stream{}, errNoKeys
	}
	return h.startExport(ctx, by, "audit export", nil,
		stream{name: "audit.jsonl", kind: "application/jsonl", write: func(w io.Writer) error {
			_, err := h.Operators.Export(ctx, w, h.JournalKeys, q)
			return h.logChanged("audit.jsonl", err)
		}})
}

// logChanged logs that what an export has was changed in the store, and returns any other error. The file has all lines
// but its signature then, and shows what was changed.
func (h *Handler) logChanged(file string, err error) error {
	if journal.IsChanged(err) {
		h.Log.Error("admin API", "file", file, "err", err)
		return nil
	}
	return err
}

// ExportAudit writes the audit trail in a form that can be verified. Nothing is written before a refusal.
func (h *Handler) ExportAudit(ctx context.Context, by operator.Actor, q operator.Query, to io.Writer) error {
	s, err := h.startAuditExport(ctx, by, q)
	if err != nil {
		return err
	}
	defer s.leave()
	return s.write(to)
}

// exportJournal answers with days of the journal, after that stands in the audit trail. It is for those who see all
// merchants: an export has a link for each record of the chains.
func exportJournal(h *Handler, r *request) (any, error) {
	st, err := h.openJournal(&r.actor, "journal export")
	if err != nil {
		return nil, err
	}
	asked := r.URL.Query()
	q := journal.Query{Merchant: asked.Get("merchant")}
	if q.From, q.To, err = readTimes(asked.Get("from"), asked.Get("to")); err != nil {
		return nil, err
	}
	if err := h.checkMerchantOf(r.Context(), &r.actor, st, q.Merchant); err != nil {
		return nil, err
	}
	answer := stream{name: "journal.jsonl", kind: "application/jsonl", write: func(w io.Writer) error {
		_, err := journal.WriteJSONLines(r.Context(), w, h.Journal, h.JournalKeys, q)
		return h.logChanged("journal.jsonl", err)
	}}
	switch asked.Get("format") {
	case "", "jsonl":
		if h.JournalKeys == nil {
			return nil, errNoKeys
		}
	case "csv":
		answer = stream{name: "journal.csv", kind: "text/csv; charset=utf-8", write: func(w io.Writer) error {
			_, err := journal.WriteCSV(r.Context(), w, h.Journal, h.RulesOf, q)
			return err
		}}
	default:
		return nil, refuse(http.StatusBadRequest, "format: want jsonl or csv.")
	}
	what := map[string]string{
		"merchant": q.Merchant, "from": asked.Get("from"), "to": asked.Get("to"), "format": asked.Get("format"),
	}
	return h.startExport(r.Context(), r.actor, "journal export", what, answer)
}

// eraseTime is how long an erasure may take until it is answered: a merchant may have millions of records.
const eraseTime = 10 * time.Minute

// AllowEraseTime gives the answer to an erasure more time than other answers have. A server that has
// no deadlines needs none.
func AllowEraseTime(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(eraseTime))
}

func listHolds(h *Handler, r *request) (any, error) { return h.Holds(r.Context(), r.actor) }

func eraseJournal(h *Handler, r *request) (any, error) {
	var asked struct {
		AcctNumber string `json:"acctNumber"`
		Merchant   string `json:"merchant"`
	}
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	return h.EraseJournal(r.Context(), r.actor, asked.AcctNumber, asked.Merchant)
}
