package pages

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/operate/ops"
)

// A certificateRow is a directory in the list of client certificates.
type certificateRow struct {
	admin.CertificatesOfScheme
	Pill   pill
	Days   string // until the certificate ends that is shown; "" if none is
	IsSoon bool   // that end
	Coming string // what comes, in words
}

// newCertificateRow returns how things stand with the certificates of a directory, for people.
func newCertificateRow(c *admin.CertificatesOfScheme, now time.Time) certificateRow {
	row := certificateRow{CertificatesOfScheme: *c, Pill: pill{"good", "check", "In use"}}
	if c.Shown != nil {
		row.Days, row.IsSoon = daysLeft(c.Shown.Expires, now)
	}
	switch {
	case c.Problem != "" || c.IsRefused:
		row.Pill = pill{"bad", "cross", "Degraded"}
	case !c.Managed:
		row.Pill = pill{"calm", "dash", "From files"}
	case row.IsSoon:
		row.Pill = pill{"warn", "warning", "Ends soon"}
	}
	switch {
	case c.Next != nil && !c.At.IsZero():
		row.Coming = "planned for " + moment(c.At)
	case c.Next != nil:
		row.Coming = "waits to be activated"
	case len(c.Requests) > 0:
		row.Coming = "waits for the CA"
	}
	return row
}

// A certificatesView is the data of the page that lists directories.
type certificatesView struct{ Rows []certificateRow }

func certificatesPage(h *Handler, v *visit) (result, error) {
	start := time.Now()
	all, err := listAll[admin.CertificatesOfScheme](h, v, "certificates", nil)
	if err != nil {
		return result{}, err
	}
	view := certificatesView{}
	for i := range all {
		view.Rows = append(view.Rows, newCertificateRow(&all[i], h.Now()))
	}
	return result{template: "certificates", title: "Certificates", data: view, db: time.Since(start)}, nil
}

// keyKinds are the kinds of keys that a form offers, as the admin API takes them.
var keyKinds = []struct {
	value, name string
	body        map[string]any
}{
	{"rsa2048", "RSA, 2048 bits", map[string]any{"bits": 2048}},
	{"rsa3072", "RSA, 3072 bits", map[string]any{"bits": 3072}},
	{"rsa4096", "RSA, 4096 bits", map[string]any{"bits": 4096}},
	{"p256", "Elliptic, P-256", map[string]any{"curve": "P-256"}},
	{"p384", "Elliptic, P-384", map[string]any{"curve": "P-384"}},
}

// A certificateView is the data of the page of one directory.
type certificateView struct {
	Row               certificateRow
	CanChange         bool
	Done, Fault       string
	Test              *ops.CertificateTest
	Keys              []choice
	Subject, At, File string // as they were typed
}

// changesDone says what a change has done, by the word in the address of the page that follows.
var changesDone = map[string]string{
	"request":  "The key is made. Send the request below to the CA of the scheme.",
	"install":  "The certificate is installed.",
	"activate": "The certificate is in use. Nodes change over within seconds.",
	"rollback": "The certificate from before is in use again. Nodes change over within seconds.",
}

// changesDoneUnused says the same of a directory whose certificate is in files, where that differs.
var changesDoneUnused = map[string]string{
	"activate": "The certificate is activated in the store. The directory goes on with its files.",
	"rollback": "The store has the certificate from before again. The directory goes on with its files.",
}

func certificatePage(h *Handler, v *visit) (result, error) {
	return h.showCertificate(v, &certificateView{})
}

// showCertificate fills in what the page of a directory shows beside what view has.
func (h *Handler) showCertificate(v *visit, view *certificateView) (result, error) {
	var got admin.CertificatesOfScheme
	start := time.Now()
	if err := h.call(v, http.MethodGet, "certificates/"+url.PathEscape(v.PathValue("scheme")), nil, nil, &got); err != nil {
		return result{}, err
	}
	view.Row, view.CanChange = newCertificateRow(&got, h.Now()), v.can("cert request")
	done := v.URL.Query().Get("done")
	view.Done = changesDone[done]
	if unused := changesDoneUnused[done]; unused != "" && !got.Managed {
		view.Done = unused
	}
	for _, k := range keyKinds {
		view.Keys = append(view.Keys, choice{k.value, k.name, k.value == v.PostForm.Get("key")})
	}
	return result{
		template: "certificate", title: "Certificate of " + h.schemeName(got.Scheme), data: view, db: time.Since(start),
		status: faultStatus(view.Fault),
	}, nil
}

// changeCertificate does what a button says. What is refused is shown with what was typed.
func changeCertificate(h *Handler, v *visit) (result, error) {
	form, do := v.PostForm, v.PostForm.Get("do")
	view := &certificateView{Subject: form.Get("subject"), At: form.Get("at"), File: form.Get("certificate")}
	body, fault := certificateBody(form)
	if body == nil {
		return result{}, errNoPage
	}
	at := "certificates/" + url.PathEscape(v.PathValue("scheme"))
	var answer any
	if do == "test" {
		view.Test = &ops.CertificateTest{}
		answer = view.Test
	}
	if fault == "" {
		var err error
		if fault, err = h.submit(v, http.MethodPost, at+"/"+do, nil, body, answer); err != nil {
			return result{}, err
		}
	}
	if fault == "" && do != "test" {
		return result{to: "/" + at + "?done=" + do}, nil
	}
	if view.Fault = fault; fault != "" {
		view.Test = nil
	}
	return h.showCertificate(v, view)
}

// certificateBody returns what the admin API is asked for by a form, or what is wrong with what was typed. It is nil if the
// form asks for nothing that there is.
func certificateBody(form url.Values) (body map[string]any, fault string) {
	body = map[string]any{}
	switch form.Get("do") {
	case "request":
		for _, k := range keyKinds {
			if k.value == form.Get("key") {
				maps.Copy(body, k.body)
			}
		}
		body["subject"] = strings.TrimSpace(form.Get("subject"))
	case "install":
		body["certificate"] = form.Get("certificate")
		if text := strings.TrimSpace(form.Get("at")); text != "" {
			at, err := readTime(text)
			if err != nil {
				return body, "The time needs a form such as 2028-01-31T03:00 (UTC)."
			}
			body["at"] = at.Format(time.RFC3339)
		}
	case "activate", "rollback", "test":
	default:
		return nil, ""
	}
	return body, ""
}
