package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/message"
)

// v2 is the protocol of /preauth, /auth and /postauth, and of paths that have no endpoint.
// Its errors are Erros.
type v2 struct{}

// apiKey returns the header APIKey. If there are several, none counts: a proxy before this
// server may have looked at another one.
func (v2) apiKey(r *http.Request) string {
	if keys := r.Header["Apikey"]; len(keys) == 1 {
		return keys[0]
	}
	return ""
}

// writeFailure answers with an Erro; a request without a good key is answered in plain text
// (docs/api.md, G2).
func (v2) writeFailure(h *Handler, w http.ResponseWriter, r *http.Request, f *failure) {
	if f == unknownKey {
		obs.RequestOf(r.Context()).Refuse("unauthorized")
		h.writeAs(w, f.status, "text/plain; charset=utf-8", []byte("Invalid API Key"))
		return
	}
	if f.status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		setRetryAfter(w)
	}
	noteErro(r, f.erro())
	h.write(w, f.status, f.erroJSON())
}

func (p v2) writeError(h *Handler, w http.ResponseWriter, r *http.Request, err error) {
	if tooMany, ok := errors.AsType[*auth.TooManyError](err); ok {
		h.countRefusal(r, PerMerchant)
		setRetryAfter(w)
		h.writeErro(w, r, http.StatusTooManyRequests, tooMany.Erro)
		return
	}
	writeErrors(w, err)
	if erro, ok := errors.AsType[message.Error](err); ok {
		h.writeErro(w, r, http.StatusBadRequest, erro)
		return
	}
	if failed, ok := errors.AsType[*failure](err); ok {
		p.writeFailure(h, w, r, failed)
		return
	}
	h.logUnlessGone(r, err)
	p.writeFailure(h, w, r, internalFailure)
}

// logUnlessGone logs a fault of ours. It aborts the request if it failed because the caller has gone.
func (h *Handler) logUnlessGone(r *http.Request, err error) {
	abortIfGone(r)
	h.Log.ErrorContext(r.Context(), "request failed", "operation", operationOf(r), "err", err)
}

// writeErrors sets the header X-Errors to the faults that err has.
func writeErrors(w http.ResponseWriter, err error) {
	entries := check.FaultsOf(err)
	if failed, ok := errors.AsType[*failure](err); ok {
		entries = failed.entries
	}
	if len(entries) > 0 {
		w.Header().Set("X-Errors", encodeErrors(entries))
	}
}

// maxErrors is the length of the longest header X-Errors, in bytes.
const maxErrors = 4096

// encodeErrors returns faults as a JSON array in ASCII, without their sources. The last entry says how many do not fit.
func encodeErrors(entries []api.Fault) string {
	text := "["
	for i, e := range entries {
		entry := struct {
			api.Fault
			Source *string `json:"source,omitempty"` // goes before that of the entry, and is left out
		}{Fault: e}
		one, err := json.Marshal(entry)
		if err != nil {
			panic(err) // an entry has nothing that cannot be encoded
		}
		next := escapeNonASCII(string(one))
		more := fmt.Sprintf(`{"more":%d}]`, len(entries)-i)
		if len(text)+len(next)+len(",")+len(more) > maxErrors {
			return text + more
		}
		text += next
		if i < len(entries)-1 {
			text += ","
		}
	}
	return text + "]"
}

// escapeNonASCII returns a JSON text with the characters beyond ASCII as escape sequences.
func escapeNonASCII(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < unicode.MaxASCII:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func (h *Handler) writeErro(w http.ResponseWriter, r *http.Request, status int, erro message.Error) {
	noteErro(r, erro)
	h.write(w, status, erro.JSON())
}

// noteErro records the Erro that answers a request: the elements that it names, or else its errorDetail, unless another
// server wrote that text.
func noteErro(r *http.Request, erro message.Error) {
	elements, detail := check.Elements(erro), ""
	if len(elements) == 0 && erro.Component == "S" {
		detail = erro.Detail
	}
	obs.RequestOf(r.Context()).SetError(erro.Code.String(), elements, detail)
	obs.Note(r.Context(), "errorComponent", erro.Component)
}

// setList sets a header to a list of elements, if there are any.
func setList(header http.Header, name string, elements []string) {
	if len(elements) > 0 {
		header.Set(name, strings.Join(elements, ", "))
	}
}

func (h *Handler) preauth(ctx context.Context, req *request) (response, error) {
	if _, err := readReference(ctx, req.header); err != nil {
		return response{}, err
	}
	crd, notes, err := h.Engine.Preauth(ctx, req.account, req.body)
	return response{body: crd, notes: notes}, err
}

func (h *Handler) auth(ctx context.Context, req *request) (response, error) {
	reference, err := readReference(ctx, req.header)
	if err != nil {
		return response{}, err
	}
	if reference != "" {
		ctx = auth.WithReference(ctx, reference)
	}
	ares, notes, err := h.Engine.Authenticate(ctx, req.account, req.body)
	return response{body: ares, notes: notes}, err
}

// badReference answers a header X-Reference that does not have the form of docs/api.md, G12.
var badReference = newFailureOf(api.Fault{
	Header: "X-Reference", Code: message.Format.String(), Rule: "length", Limit: limitOf(1, transid.MaxReference),
	Cure: "Give the header once, with 1 to 64 printable characters, or leave it out.",
}, "invalid_request",
	"The header X-Reference must have 1 to 64 printable characters, and be given once")

// readReference returns the header X-Reference, "" if there is none, and notes it for the log. Digits that
// may be a card number whose check digit is wrong are hidden.
func readReference(ctx context.Context, header http.Header) (string, error) {
	values := header["X-Reference"]
	if len(values) == 0 {
		return "", nil
	}
	reference := values[0]
	if len(values) > 1 || !transid.IsReference(reference) {
		return "", badReference
	}
	reference = cardnumber.Mask(cardnumber.Scrub(reference))
	obs.Note(ctx, "reference", reference)
	return reference, nil
}
