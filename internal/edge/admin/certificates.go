package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
)

// maxCertificates is the length of the longest body with certificates: their file, as JSON writes it.
const maxCertificates = 128 << 10

// CertificatesOfScheme say how things stand with the client certificates of a directory.
type CertificatesOfScheme struct {
	clientcert.Status

	// Managed says that the directory uses them; else the configuration names files.
	Managed bool `json:"managed"`

	// Shown is what this node shows to the directory server at this moment; null: nothing.
	Shown *Certificate `json:"shown"`

	Problem string `json:"problem,omitzero"` // what /readyz says of the directory
}

// A CertificateTest is what came of a handshake.
type CertificateTest struct {
	Certificate string `json:"certificate"` // which was shown: next or current
	Subject     string `json:"subject"`
	directory.HandshakeReport
}

func (h *Handler) newCertificates(d *Directory, status clientcert.Status) *CertificatesOfScheme {
	return &CertificatesOfScheme{
		Status: status, Managed: d.Managed, Shown: d.Certificate, Problem: h.Node.Problems()[certificatesOf(d.Scheme)],
	}
}

func listCertificates(h *Handler, r *request) (any, error) {
	if h.Node == nil {
		return nil, errNoNode
	}
	all := list[*CertificatesOfScheme]{Data: []*CertificatesOfScheme{}}
	for _, d := range h.Node.Directories() {
		status, err := h.Node.Certificates.Status(r.Context(), d.Scheme)
		if err != nil {
			return nil, err
		}
		all.Data = append(all.Data, h.newCertificates(&d, status))
	}
	return all, nil
}

func showCertificates(h *Handler, r *request) (any, error) {
	d, err := h.findDirectory(r)
	if err != nil {
		return nil, err
	}
	status, err := h.Node.Certificates.Status(r.Context(), d.Scheme)
	return h.newCertificates(d, status), err
}

// certificateProblem returns the answer to an error of client certificates.
func certificateProblem(err error) error {
	refusal, ok := errors.AsType[*clientcert.RefusalError](err)
	if !ok {
		return err
	}
	status := http.StatusBadRequest
	switch refusal.Rule {
	case "state", "row", "busy":
		status = http.StatusConflict
	}
	return refuse(status, "%s.", refusal.Text)
}

// changeCertificates reads the body into asked, and answers with the status that a change has made. The change is in the
// audit trail before it is made.
func (h *Handler) changeCertificates(r *request, action string, asked any,
	change func(d *Directory, record clientcert.Recorder) (clientcert.Status, error),
) (any, error) {
	if err := r.decode(asked); err != nil {
		return nil, err
	}
	d, err := h.findDirectory(r)
	if err != nil {
		return nil, err
	}
	status, err := change(d, func(before, after clientcert.Status) error {
		return h.record(r, action, d.Scheme, before.Summary(), after.Summary())
	})
	if err != nil {
		return nil, certificateProblem(err)
	}
	return h.newCertificates(d, status), nil
}

func requestCertificate(h *Handler, r *request) (any, error) {
	var asked struct {
		Bits    int    `json:"bits"`
		Curve   string `json:"curve"`
		Subject string `json:"subject"`
	}
	return h.changeCertificates(r, "certificate.request", &asked, func(d *Directory, record clientcert.Recorder) (clientcert.Status, error) {
		spec := clientcert.Spec{Bits: asked.Bits, Curve: asked.Curve, Subject: asked.Subject}
		if spec.Subject == "" {
			status, err := h.Node.Certificates.Status(r.Context(), d.Scheme)
			if err != nil {
				return status, err
			}
			spec.Subject = status.DefaultSubject(d.ResultsURL)
		}
		_, status, err := h.Node.Certificates.Request(r.Context(), d.Scheme, spec, record)
		return status, err
	})
}

func installCertificate(h *Handler, r *request) (any, error) {
	var asked struct {
		Certificate string    `json:"certificate"` // PEM, those of the CAs behind it
		At          time.Time `json:"at"`          // zero: when it is activated
	}
	return h.changeCertificates(r, "certificate.install", &asked, func(d *Directory, record clientcert.Recorder) (clientcert.Status, error) {
		return h.Node.Certificates.Install(r.Context(), d.Scheme, []byte(asked.Certificate), asked.At, d.certificates, record)
	})
}

func activateCertificate(h *Handler, r *request) (any, error) {
	return h.changeCertificates(r, "certificate.activate", &struct{}{}, func(d *Directory, record clientcert.Recorder) (clientcert.Status, error) {
		return h.Node.Certificates.Activate(r.Context(), d.Scheme, record)
	})
}

func rollbackCertificate(h *Handler, r *request) (any, error) {
	return h.changeCertificates(r, "certificate.rollback", &struct{}{}, func(d *Directory, record clientcert.Recorder) (clientcert.Status, error) {
		return h.Node.Certificates.Rollback(r.Context(), d.Scheme, record)
	})
}

// A handshakeTrier makes a handshake with the directory server of a scheme.
type handshakeTrier func(ctx context.Context, scheme string, cert tls.Certificate) (directory.HandshakeReport, error)

// testCertificate changes nothing, so it is not in the audit trail.
func testCertificate(h *Handler, r *request) (any, error) {
	if err := r.decode(&struct{}{}); err != nil {
		return nil, err
	}
	d, err := h.findDirectory(r)
	if err != nil {
		return nil, err
	}
	cert, what, err := h.Node.Certificates.Candidate(r.Context(), d.Scheme)
	if err != nil {
		return nil, certificateProblem(err)
	}
	report, err := h.Node.TryCertificate(r.Context(), d.Scheme, *cert)
	return CertificateTest{what, cert.Leaf.Subject.String(), report}, err
}
