package pages

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
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
	all, err := h.Admin.ListCertificates(v.Context(), v.session.Actor)
	if err != nil {
		return result{}, err
	}
	view := certificatesView{}
	for i := range all {
		view.Rows = append(view.Rows, newCertificateRow(all[i], h.Now()))
	}
	return result{template: "certificates", title: "Certificates", data: view, db: time.Since(start)}, nil
}

// keyKinds are the kinds of keys that a form offers.
var keyKinds = []struct {
	value, name string
	spec        clientcert.Spec
}{
	{"rsa2048", "RSA, 2048 bits", clientcert.Spec{Bits: 2048}},
	{"rsa3072", "RSA, 3072 bits", clientcert.Spec{Bits: 3072}},
	{"rsa4096", "RSA, 4096 bits", clientcert.Spec{Bits: 4096}},
	{"p256", "Elliptic, P-256", clientcert.Spec{Curve: "P-256"}},
	{"p384", "Elliptic, P-384", clientcert.Spec{Curve: "P-384"}},
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

// showCertificate fills in what the page of a directory shows in addition to view.
func (h *Handler) showCertificate(v *visit, view *certificateView) (result, error) {
	start := time.Now()
	got, err := h.Admin.ShowCertificates(v.Context(), v.session.Actor, v.PathValue("scheme"))
	if err != nil {
		return result{}, err
	}
	view.Row, view.CanChange = newCertificateRow(got, h.Now()), v.can("cert request")
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
	if !slices.Contains([]string{"request", "install", "activate", "rollback", "test"}, do) {
		return result{}, errNoPage
	}
	view := &certificateView{Subject: form.Get("subject"), At: form.Get("at"), File: form.Get("certificate")}
	fault, err := faultOf(h.doCertificateAct(v, do, view))
	switch {
	case err != nil:
		return result{}, err
	case fault == "" && do != "test":
		return result{to: "/certificates/" + url.PathEscape(v.PathValue("scheme")) + "?done=" + do}, nil
	}
	view.Fault = fault
	return h.showCertificate(v, view)
}

// doCertificateAct does an act on the client certificates of a directory, with what was typed.
func (h *Handler) doCertificateAct(v *visit, do string, view *certificateView) error {
	ctx, by := v.Context(), v.session.Actor
	if err := ops.Find("cert " + do).Check(&by); err != nil {
		return err
	}
	d, err := h.Admin.FindDirectory(v.PathValue("scheme"))
	if err != nil {
		return err
	}
	switch do {
	case "request":
		var spec clientcert.Spec
		for _, k := range keyKinds {
			if k.value == v.PostForm.Get("key") {
				spec = k.spec
			}
		}
		spec.Subject = strings.TrimSpace(view.Subject)
		_, _, err = h.Acts.RequestCertificate(ctx, by, d.Scheme, spec, d.ResultsURL)
	case "install":
		var at time.Time
		if text := strings.TrimSpace(view.At); text != "" {
			if at, err = readTime(text); err != nil {
				return &ops.Refusal{Why: ops.Wrong, Text: "The time needs a form such as 2028-01-31T03:00 (UTC)."}
			}
		}
		_, err = h.Acts.InstallCertificate(ctx, by, d.Scheme, []byte(view.File), at, d.Roots())
	case "activate":
		_, err = h.Acts.ActivateCertificate(ctx, by, d.Scheme)
	case "rollback":
		_, err = h.Acts.RollBackCertificate(ctx, by, d.Scheme)
	default:
		var test ops.CertificateTest
		if test, err = h.Acts.ProveCertificate(ctx, by, d.Scheme); err == nil {
			view.Test = &test
		}
	}
	return err
}
