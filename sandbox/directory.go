package sandbox

import (
	"cmp"
	"crypto/tls"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox/internal/cards"
	"github.com/openthreeds/threeds/sandbox/internal/peer"
	"github.com/openthreeds/threeds/sandbox/internal/pki"
	"github.com/openthreeds/threeds/sandbox/ranges"
)

// A directory is one scheme's directory server.
type directory struct {
	box       *Sandbox
	scheme    *cards.Scheme
	url       string
	server3DS tls.Certificate // what the 3-D Secure server shows here
	results   *http.Client    // for RReq and Erro to it
	ranges    *ranges.Set
	asked     atomic.Bool // an AReq came before
}

// maxBody is the largest message taken, in bytes. An AReq has more than the /auth that
// it was made of, for which 256 KiB are allowed.
const maxBody = 512 << 10

func newDirectory(s *Sandbox, sch *cards.Scheme) (*directory, error) {
	d := &directory{box: s, scheme: sch}
	server, err := s.certs.directories.Issue(sch.ServerName(), s.certs.hosts...)
	if err != nil {
		return nil, err
	}
	client, err := s.certs.directories.Issue(sch.ClientName())
	if err != nil {
		return nil, err
	}
	if d.server3DS, err = s.makePair(s.certs.servers, sch.Word+"/client", sch.OwnerName()); err != nil {
		return nil, err
	}
	d.results = s.resultsClient(client)
	if s.shared != nil {
		d.url = s.shared.add(d)
		return d, d.openRanges(server)
	}
	l, err := s.listen(d, pki.MutualTLS(server, s.certs.servers))
	if err != nil {
		return nil, err
	}
	d.url = l.url + "/"
	return d, d.openRanges(server)
}

// ServeHTTP takes one message of the 3-D Secure server and answers it.
func (d *directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, ranges.FilePath) {
		d.ranges.ServeFile(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST an AReq, a PReq or an Erro", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the message is too large or broken off", http.StatusRequestEntityTooLarge)
		return
	}
	m := readMessage(body)
	kind := m.text("messageType")
	d.box.record(m.text("threeDSServerTransID"), "server", d.name(), kind, body, d.noteStatements(m))
	if kind == "Erro" {
		d.box.log.Info("the server complains", "scheme", d.scheme.Word, "code", m.text("errorCode"),
			"detail", m.text("errorDetail"))
		return
	}
	a := d.answer(r, kind, body, m)
	if a.ranges {
		d.servePReq(w, r, m)
		return
	}
	if a.silent {
		d.box.log.Debug("silence", "scheme", d.scheme.Word)
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // anything else would be an answer
	}
	if a.late {
		select {
		case <-time.After(d.box.LateDelay):
		case <-r.Context().Done():
		}
	}
	d.send(w, m, a)
}

// An answer is what goes back on the connection, and what begins once it has left.
type answer struct {
	kind   string
	body   []byte
	silent bool
	late   bool
	status int          // of HTTP, in place of a message; 0: there is one
	page   string       // the content type of what is no message; "": it is one
	ranges bool         // the card ranges, which servePReq sends
	txn    *transaction // begins once the answer has left
}

func (d *directory) answer(r *http.Request, kind string, body []byte, m received) answer {
	if fault := d.wrongClient(r); fault != "" {
		return d.refuse(m, erro{code: "303", detail: fault})
	}
	if e, bad := judgeMessage(body, receivedIn{types: []string{"AReq", "PReq"}}); bad {
		return d.refuse(m, e)
	}
	if kind == "PReq" {
		return answer{ranges: true}
	}
	if d.asked.CompareAndSwap(false, true) {
		select {
		case <-time.After(d.box.FirstAnswerDelay):
		case <-r.Context().Done():
		}
	}
	return d.authenticate(body, m)
}

// wrongClient says what is wrong with the client's certificate: it is of the right
// authority, but each directory server knows its own.
func (d *directory) wrongClient(r *http.Request) string {
	if name := d.scheme.OwnerName(); r.TLS.PeerCertificates[0].VerifyHostname(name) != nil {
		return fmt.Sprintf("the client certificate is not the one for %s", d.scheme.Word)
	}
	return ""
}

// send writes an answer and lets what comes after it begin.
func (d *directory) send(w http.ResponseWriter, m received, a answer) {
	id := m.text("threeDSServerTransID")
	if a.status != 0 {
		d.box.record(id, d.name(), "server", a.kind, nil, fmt.Sprintf("HTTP status %d in its place", a.status))
		http.Error(w, "nothing works", a.status)
		return
	}
	a.body = d.box.alter(a.kind, a.body)
	d.box.record(id, d.name(), "server", a.kind, a.body, "")
	w.Header().Set("Content-Type", cmp.Or(a.page, "application/json; charset=utf-8"))
	w.Header().Set("Content-Length", fmt.Sprint(len(a.body)))
	_, err := w.Write(a.body)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil {
		d.box.log.Warn("an answer did not leave", "scheme", d.scheme.Word, "type", a.kind, "err", err)
	}
	if a.txn != nil {
		a.txn.startNext()
	}
}

// refuse answers with an Erro.
func (d *directory) refuse(m received, e erro) answer {
	e.component, e.version, e.about = "D", answerVersion(m.text("messageVersion")), m.text("messageType")
	if e.ids.server = m.text("threeDSServerTransID"); !peer.IsUUID(e.ids.server) {
		e.ids.server = ""
	}
	if e.ids.sdk = m.text("sdkTransID"); !peer.IsUUID(e.ids.sdk) {
		e.ids.sdk = ""
	}
	if _, known := message.ParseType(e.about); !known {
		e.about = ""
	}
	d.box.log.Info("refused", "scheme", d.scheme.Word, "type", e.about, "code", e.code, "detail", e.detail)
	return answer{kind: "Erro", body: e.bytes()}
}

// answerVersion is the version to answer in.
func answerVersion(version string) string {
	if slices.Contains(peer.Versions(), version) {
		return version
	}
	return v231
}

func (d *directory) name() string { return "ds " + d.scheme.Word }

//go:embed scenarios/ranges.txt
var rangesText string

// RangeFaults is scenarios/ranges.txt: what can be wrong with an answer to a PReq.
func RangeFaults() string { return rangesText }

// Ranges are the card ranges of a scheme's directory server, nil when there is no such scheme. They are there once
// Start has returned.
func (s *Sandbox) Ranges(scheme string) *ranges.Set {
	if d := s.schemes[scheme]; d != nil {
		return d.ranges
	}
	return nil
}

// rangeSets are the card ranges of all directory servers, in order.
func (s *Sandbox) rangeSets() []*ranges.Set {
	var all []*ranges.Set
	for _, d := range s.directories {
		all = append(all, d.ranges)
	}
	return all
}

// openRanges makes the card ranges of a directory server, and opens the listener for their file.
func (d *directory) openRanges(server tls.Certificate) error {
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.ranges.ServeFile(w, r) })
	l, err := d.box.listen(files, &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	d.ranges = ranges.New(ranges.Options{
		Scheme: d.scheme.Word, Prefixes: d.scheme.Prefixes, Leads: d.scheme.Leads(),
		MethodURL: d.box.acs.url + methodPath, URL: d.url, FilesURL: l.url,
		Nice: d.box.Nice, Now: d.box.Now, Log: d.box.log, Alter: d.box.Alter, NoteBytes: keepBody,
		Note: func(transID string, n ranges.Note) {
			from, to := d.name(), "server"
			if n.IsFromServer {
				from, to = to, from
			}
			d.box.record(transID, from, to, n.Type, []byte(n.Body), n.Text)
		},
	})
	return nil
}

// servePReq answers a PReq that is a good message.
func (d *directory) servePReq(w http.ResponseWriter, r *http.Request, m received) {
	d.ranges.ServePReq(w, r, ranges.PReq{
		Version: m.text("messageVersion"), TransID: m.text("threeDSServerTransID"), Serial: m.text("serialNum"),
		WantsFile: m.text("cardRangeDataDownloadInd") == "Y",
		AnswerError: func(code, detail string) {
			d.send(w, m, d.refuse(m, erro{code: code, detail: detail}))
		},
	})
}
