package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/state/account"
)

// An MPI is what the listener needs of the engine of 3-D Secure 1.0.2.
type MPI interface {
	Enrolled(ctx context.Context, acc *account.Account, asked mpi.Enrollment) api.Enrollment
	// Check returns a *mpi.ParamError for a PARes that is not valid; another error means that it could not be checked.
	Check(ctx context.Context, acc *account.Account, pares string) (api.Checked, error)
}

// mpiProtocol is the protocol of /enrolled and /check: parameters in, JSON out, the key in
// the header Authorization.
type mpiProtocol struct{}

// apiKey returns the user of HTTP's basic authentication; its password does not matter. As in EMV 3-D Secure, if there
// are several headers, none counts.
func (mpiProtocol) apiKey(r *http.Request) string {
	if len(r.Header["Authorization"]) != 1 {
		return ""
	}
	key, _, _ := r.BasicAuth()
	return key
}

func (mpiProtocol) writeFailure(h *Handler, w http.ResponseWriter, r *http.Request, f *failure) {
	switch f {
	case unknownKey:
		w.Header().Set("WWW-Authenticate", `Basic realm="threeds"`)
	case noKeyJudged:
		f = keyNotJudged // here the answer is the same
	}
	h.writeMPIError(w, r, cmp.Or(f.mpiStatus, f.status), api.MPIFault{Type: f.kind, Message: api.Text(f.text)})
}

func (p mpiProtocol) writeError(h *Handler, w http.ResponseWriter, r *http.Request, err error) {
	if bad, ok := errors.AsType[*mpi.ParamError](err); ok {
		h.writeMPIError(w, r, http.StatusBadRequest, api.MPIFault{Param: api.Text(bad.Param), Type: bad.Type})
		return
	}
	if failed, ok := errors.AsType[*failure](err); ok {
		p.writeFailure(h, w, r, failed)
		return
	}
	abortIfGone(r)
	if errors.Is(err, mpi.ErrUnavailable) {
		p.writeFailure(h, w, r, storeUnreachable)
		return
	}
	h.Log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "err", err)
	p.writeFailure(h, w, r, internalFailure)
}

func (h *Handler) writeMPIError(w http.ResponseWriter, r *http.Request, status int, e api.MPIFault) {
	var elements []string
	if e.Param != "" {
		elements = []string{string(e.Param)}
	}
	obs.RequestOf(r.Context()).SetError(e.Type, elements, "")
	if status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	h.write(w, status, encodeJSON(api.MPIError{Error: e}))
}

func (h *Handler) enrolled(ctx context.Context, req *request) (response, error) {
	params, err := readParams(req.header.Get("Content-Type"), req.body)
	if err != nil {
		return response{}, notJSON
	}
	asked, err := mpi.ReadEnrollment(params)
	if err != nil {
		return response{}, err
	}
	return response{body: encodeJSON(h.MPI.Enrolled(context.WithoutCancel(ctx), req.account, asked))}, nil
}

func (h *Handler) check(ctx context.Context, req *request) (response, error) {
	params, err := readParams(req.header.Get("Content-Type"), req.body)
	if err != nil {
		return response{}, notJSON
	}
	pares, err := mpi.ReadPARes(params)
	if err != nil {
		return response{}, err
	}
	c, err := h.MPI.Check(context.WithoutCancel(ctx), req.account, pares)
	if err != nil {
		return response{}, err
	}
	return response{body: encodeJSON(c)}, nil
}

// encodeJSON is encode for an answer that is a struct of texts, which cannot fail.
func encodeJSON(answer any) []byte {
	text, err := encode(answer)
	if err != nil {
		panic("api: " + err.Error())
	}
	return text
}
