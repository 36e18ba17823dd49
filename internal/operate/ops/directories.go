package ops

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
)

// directoryActs are the acts on nodes, their configuration, card ranges and client certificates.
func directoryActs() []Act {
	all := []Act{
		{Name: "nodes", Least: operator.Viewer, Doors: byOperators},
		{Name: "config show", Least: operator.Operator, Doors: byOperators},
		{Name: "directory list", Least: operator.Viewer, Doors: byHTTP},
		{Name: "ranges status", Least: operator.Viewer, Doors: byOperators},
		{Name: "ranges accept", Least: operator.Operator, Action: "ranges.accept", Doors: byOperators},
		{Name: "ranges refresh", Least: operator.Operator, Action: "ranges.refresh", Doors: byOperators},
		{Name: "ranges import", Least: operator.Operator, Action: "ranges.import", Doors: []Door{Command}},
		{Name: "cert status", Least: operator.Viewer, Doors: byOperators},
		{Name: "cert request", Least: operator.Operator, Action: "certificate.request", Doors: byOperators},
		{Name: "cert install", Least: operator.Operator, Action: "certificate.install", Doors: byOperators},
		{
			Name: "cert activate", Least: operator.Operator, Action: "certificate.activate", Doors: byOperators,
			Danger: "certificates", Summary: "Bring a certificate into use",
		},
		{
			Name: "cert rollback", Least: operator.Operator, Action: "certificate.rollback", Doors: byOperators,
			Danger: "certificates", Summary: "Bring the previous certificate into use",
		},
		{Name: "cert test", Least: operator.Operator, Doors: byOperators},
	}
	for i := range all {
		if all[i].Action != "" {
			all[i].Object = "scheme"
		}
	}
	return all
}

// AcceptRanges makes the nodes use the card ranges of a scheme that are held back. held is the number of the generation
// that the actor has seen; 0 means whichever is held back. It returns the status before.
func (a *Acts) AcceptRanges(ctx context.Context, by operator.Actor, scheme string,
	held int64) (directory.RefreshStatus, error) {
	if err := Find("ranges accept").Check(&by); err != nil {
		return directory.RefreshStatus{}, err
	}
	status, err := directory.ReadRefreshStatus(ctx, a.Keeper, scheme)
	if err != nil {
		return status, err
	}
	if status.Held == 0 || cmp.Or(held, status.Held) != status.Held {
		return status, refuse(Conflict, "Nothing is held back, or it is another generation by now. Compare again.")
	}
	before := map[string]any{"generation": status.Generation, "ranges": status.Ranges}
	after := map[string]any{"held": status.Held, "ranges": status.HeldRanges}
	if err := a.Record(ctx, by, "ranges accept", scheme, before, after); err != nil {
		return status, err
	}
	return status, a.requestRanges(ctx, scheme, directory.RefreshRequest{Accept: status.Held})
}

// RefreshRanges has a node ask the directory server of a scheme for its card ranges, as soon as the protocol allows.
func (a *Acts) RefreshRanges(ctx context.Context, by operator.Actor, scheme string) error {
	if err := Find("ranges refresh").Check(&by); err != nil {
		return err
	}
	if err := a.Record(ctx, by, "ranges refresh", scheme, nil, nil); err != nil {
		return err
	}
	return a.requestRanges(ctx, scheme, directory.RefreshRequest{Refresh: true})
}

// newHolder returns a name for the holder of a lease.
func newHolder() string { return "threeds act " + rand.Text() }

// requestRanges stores a request for the nodes that serve.
func (a *Acts) requestRanges(ctx context.Context, scheme string, wanted directory.RefreshRequest) error {
	wanted.At = a.Now().UTC().Truncate(time.Millisecond)
	err := directory.PutRefreshRequest(ctx, a.Keeper, scheme, newHolder(), wanted)
	if errors.Is(err, store.ErrHeld) {
		return &Refusal{Conflict, "", "Somebody else asks for the same at this moment. Try again.", err}
	}
	return err
}

// ImportRanges makes card ranges the newest generation of a scheme. It returns the number of the generation,
// and the status before.
func (a *Acts) ImportRanges(ctx context.Context, by operator.Actor, scheme string,
	g *ranges.Generation) (int64, directory.RefreshStatus, error) {
	if err := Find("ranges import").Check(&by); err != nil {
		return 0, directory.RefreshStatus{}, err
	}
	status, err := directory.ReadRefreshStatus(ctx, a.Keeper, scheme)
	if err != nil {
		return 0, status, err
	}
	was := map[string]any{"generation": status.Generation, "ranges": status.Ranges}
	if err := a.Record(ctx, by, "ranges import", scheme, was, map[string]any{"ranges": g.Len()}); err != nil {
		return 0, status, err
	}
	number, err := directory.Import(ctx, a.Keeper, scheme, newHolder(), g)
	return number, status, err
}

// certificateRefusal returns the refusal that an error of client certificates is.
func certificateRefusal(err error) error {
	refusal, ok := errors.AsType[*clientcert.RefusalError](err)
	if !ok {
		return err
	}
	why := Wrong
	switch refusal.Rule {
	case "state", "row", "busy":
		why = Conflict
	}
	return &Refusal{why, "", refusal.Text + ".", refusal}
}

// dangerOf returns what a change of certificates has to be confirmed as, and the certificate that comes into use by it.
// One that is installed for a time comes into use without anybody's doing, so the installation is the activation.
func dangerOf(act, scheme string, after *clientcert.Status) operator.Intent {
	sum := after.Summary()
	shown, text := after.Current, sum.Current
	if act == "cert install" && after.Next != nil && !after.At.IsZero() {
		act, shown, text = "cert activate", after.Next, sum.Next+", from "+after.At.Format(time.RFC3339)
	}
	if shown == nil {
		return operator.Intent{Act: act, Object: scheme}
	}
	return operator.Intent{Act: act, Object: scheme + ": " + text + ", SHA-256 " + shown.Fingerprint}
}

// changeCertificates makes a change of the client certificates of a scheme, if the actor may do the act.
func (a *Acts) changeCertificates(ctx context.Context, by operator.Actor, act, scheme string,
	change func(record clientcert.Recorder) (clientcert.Status, error),
) (clientcert.Status, error) {
	if err := Find(act).Check(&by); err != nil {
		return clientcert.Status{}, err
	}
	status, err := change(func(before, after clientcert.Status) error {
		// Who confirms the act sees which certificate will be in use, and confirms no other.
		if err := a.checkIntent(&by, dangerOf(act, scheme, &after)); err != nil {
			return err
		}
		return a.record(ctx, by, act, scheme, before.Summary(), after.Summary())
	})
	return status, certificateRefusal(err)
}

// RequestCertificate makes a key and returns the request for its certificate. Without a subject it is for the host of
// the listener for results, at resultsURL.
func (a *Acts) RequestCertificate(ctx context.Context, by operator.Actor, scheme string, spec clientcert.Spec,
	resultsURL string) (csr []byte, status clientcert.Status, err error) {
	status, err = a.changeCertificates(ctx, by, "cert request", scheme,
		func(record clientcert.Recorder) (clientcert.Status, error) {
			if spec.Subject == "" {
				was, err := a.Certificates.Status(ctx, scheme)
				if err != nil {
					return was, err
				}
				spec.Subject = was.DefaultSubject(resultsURL)
			}
			var after clientcert.Status
			var err error
			csr, after, err = a.Certificates.Request(ctx, scheme, spec, record)
			return after, err
		})
	return csr, status, err
}

// InstallCertificate installs a certificate with those of the CAs behind it, in PEM. It comes into use at a time; the
// zero time means when it is activated. roots are the CAs that the directory server may have.
func (a *Acts) InstallCertificate(ctx context.Context, by operator.Actor, scheme string, file []byte, at time.Time,
	roots []*x509.Certificate) (clientcert.Status, error) {
	return a.changeCertificates(ctx, by, "cert install", scheme,
		func(record clientcert.Recorder) (clientcert.Status, error) {
			return a.Certificates.Install(ctx, scheme, file, at, roots, record)
		})
}

// ActivateCertificate brings the certificate into use that is installed.
func (a *Acts) ActivateCertificate(ctx context.Context, by operator.Actor, scheme string) (clientcert.Status, error) {
	return a.changeCertificates(ctx, by, "cert activate", scheme,
		func(record clientcert.Recorder) (clientcert.Status, error) {
			return a.Certificates.Activate(ctx, scheme, record)
		})
}

// RollBackCertificate brings the certificate into use that was in use before.
func (a *Acts) RollBackCertificate(ctx context.Context, by operator.Actor, scheme string) (clientcert.Status, error) {
	return a.changeCertificates(ctx, by, "cert rollback", scheme,
		func(record clientcert.Recorder) (clientcert.Status, error) {
			return a.Certificates.Rollback(ctx, scheme, record)
		})
}

// A CertificateTest is what came of a handshake with a directory server.
type CertificateTest struct {
	Certificate string `json:"certificate"` // which was shown: next or current
	Subject     string `json:"subject"`
	directory.HandshakeReport
}

// ProveCertificate makes a TLS handshake with the directory server of a scheme, with the installed certificate or the
// one in use. It changes nothing, so it is not in the audit trail.
func (a *Acts) ProveCertificate(ctx context.Context, by operator.Actor, scheme string) (CertificateTest, error) {
	if err := Find("cert test").Check(&by); err != nil {
		return CertificateTest{}, err
	}
	cert, what, err := a.Certificates.Candidate(ctx, scheme)
	if err != nil {
		return CertificateTest{}, certificateRefusal(err)
	}
	report, err := a.TryCertificate(ctx, scheme, *cert)
	return CertificateTest{what, cert.Leaf.Subject.String(), report}, err
}
