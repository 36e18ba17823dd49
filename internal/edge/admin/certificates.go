package admin

import (
	"context"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
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

func (h *Handler) newCertificates(d *Directory, status clientcert.Status) *CertificatesOfScheme {
	return &CertificatesOfScheme{
		Status: status, Managed: d.Managed, Shown: d.Certificate, Problem: h.Node.Problems()[certificatesOf(d.Scheme)],
	}
}

// ListCertificates returns how things stand with the client certificates of each directory.
func (h *Handler) ListCertificates(ctx context.Context, by operator.Actor) ([]*CertificatesOfScheme, error) {
	if err := ops.Find("cert status").Check(&by); err != nil {
		return nil, err
	}
	if h.Node == nil {
		return nil, errNoNode
	}
	all := []*CertificatesOfScheme{}
	for _, d := range h.Node.Directories() {
		status, err := h.Certificates.Status(ctx, d.Scheme)
		if err != nil {
			return nil, err
		}
		all = append(all, h.newCertificates(&d, status))
	}
	return all, nil
}

// ShowCertificates returns how things stand with the client certificates of one directory.
func (h *Handler) ShowCertificates(ctx context.Context, by operator.Actor,
	scheme string) (*CertificatesOfScheme, error) {
	if err := ops.Find("cert status").Check(&by); err != nil {
		return nil, err
	}
	d, err := h.FindDirectory(scheme)
	if err != nil {
		return nil, err
	}
	status, err := h.Certificates.Status(ctx, d.Scheme)
	return h.newCertificates(d, status), err
}

// changeCertificates reads the body into asked, and answers with the status that a change has made.
func (h *Handler) changeCertificates(r *request, asked any,
	change func(d *Directory) (clientcert.Status, error)) (any, error) {
	if err := r.decode(asked); err != nil {
		return nil, err
	}
	d, err := h.FindDirectory(r.PathValue("scheme"))
	if err != nil {
		return nil, err
	}
	status, err := change(d)
	return h.newCertificates(d, status), err
}

func requestCertificate(h *Handler, r *request) (any, error) {
	var asked struct {
		Bits    int    `json:"bits"`
		Curve   string `json:"curve"`
		Subject string `json:"subject"`
	}
	return h.changeCertificates(r, &asked, func(d *Directory) (clientcert.Status, error) {
		spec := clientcert.Spec{Bits: asked.Bits, Curve: asked.Curve, Subject: asked.Subject}
		_, status, err := h.RequestCertificate(r.Context(), r.actor, d.Scheme, spec, d.ResultsURL)
		return status, err
	})
}

func installCertificate(h *Handler, r *request) (any, error) {
	var asked struct {
		Certificate string    `json:"certificate"` // PEM, those of the CAs behind it
		At          time.Time `json:"at"`          // zero: when it is activated
	}
	return h.changeCertificates(r, &asked, func(d *Directory) (clientcert.Status, error) {
		return h.InstallCertificate(r.Context(), r.actor, d.Scheme, []byte(asked.Certificate), asked.At, d.certificates)
	})
}

// changeCertificate returns the operation that brings another certificate of a directory into use.
func changeCertificate(
	change func(*Handler, context.Context, operator.Actor, string) (clientcert.Status, error)) operation {
	return func(h *Handler, r *request) (any, error) {
		return h.changeCertificates(r, &struct{}{}, func(d *Directory) (clientcert.Status, error) {
			return change(h, r.Context(), r.actor, d.Scheme)
		})
	}
}

func testCertificate(h *Handler, r *request) (any, error) {
	if err := r.decode(&struct{}{}); err != nil {
		return nil, err
	}
	d, err := h.FindDirectory(r.PathValue("scheme"))
	if err != nil {
		return nil, err
	}
	return h.ProveCertificate(r.Context(), r.actor, d.Scheme)
}
